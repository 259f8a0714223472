"""Which Python files are worth learning from: pure rules over a path and its text."""

import hashlib
import re
from pathlib import PurePosixPath

from builders.training.recipe import CorpusLimits

HEAD_CHARACTERS = 1_000
_GENERATED = re.compile(
    r"@generated|(?i:(auto[- ]?|automatically )?generated (by|from|file|code|with|using)"
    r"|do not edit)"
)
_GENERATED_NAMES = re.compile(r"_pb2(_grpc)?\.py$|(^|/)(parsetab|lextab|_version|versioneer)\.py$")
_VENDOR_FOLDERS = frozenset(
    ("_vendor", "vendor", "_vendored", "vendored", "vendored_packages", "third_party", "extern")
) | frozenset(("thirdparty", "externals", "_external", "site-packages", "node_modules"))
_TEST_FOLDERS = frozenset(("test", "tests", "testing", "_tests", "_test", "testsuite"))


def is_vendored(path: str) -> bool:
    """Whether a folder on the path holds copies of other projects."""
    return not _VENDOR_FOLDERS.isdisjoint(PurePosixPath(path).parent.parts)


def is_test(path: str) -> bool:
    """Whether the file lies under a test folder."""
    return not _TEST_FOLDERS.isdisjoint(PurePosixPath(path).parent.parts)


def is_generated(path: str, text: str) -> bool:
    """Whether the name or the head of the file says that a program wrote it."""
    named = _GENERATED_NAMES.search(path) is not None
    return named or _GENERATED.search(text[:HEAD_CHARACTERS]) is not None


def keeps_test(path: str, share: float) -> bool:
    """A fixed `share` of paths, chosen by hash so that the choice needs no state."""
    digest = hashlib.sha256(path.encode()).digest()
    return int.from_bytes(digest[:4], "big") < share * 2**32


def has_good_shape(text: str, limits: CorpusLimits) -> bool:
    """Size, line lengths, digits and non-ASCII characters within the limits."""
    size = len(text.encode())
    if not limits.file_bytes_min <= size <= limits.file_bytes_max:
        return False
    lines = text.split("\n")
    if max(map(len, lines)) > limits.longest_line_characters_max:
        return False
    if len(text) / len(lines) > limits.mean_line_characters_max:
        return False
    digits = sum(map(text.count, "0123456789"))
    non_ascii = size - len(text) if not text.isascii() else 0
    return digits < limits.digit_share_max * len(
        text
    ) and non_ascii < limits.non_ascii_share_max * len(text)


def decode(content: bytes) -> str | None:
    """UTF-8 text with "\\n" line ends, or None where it is not text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return None if "\0" in text else text


def keeps(path: str, text: str, limits: CorpusLimits) -> bool:
    """The whole rule for one file."""
    if is_vendored(path) or not has_good_shape(text, limits) or is_generated(path, text):
        return False
    return not is_test(path) or keeps_test(path, limits.test_file_share)

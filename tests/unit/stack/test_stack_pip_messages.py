import pytest

from scripts.stack.pip_messages import collected_in, last_lines, remedy_for, requirements_in


@pytest.mark.parametrize(
    ("output", "part_of_remedy"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "other files"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk space"),
        ("NewConnectionError: Failed to establish a new connection", "could not be reached"),
        ("Temporary failure in name resolution", "could not be reached"),
        ("SSLError(SSLCertVerificationError(1, CERTIFICATE_VERIFY_FAILED", "certificate"),
        ("ERROR: No matching distribution found for numpy==2.4.6", "CPython 3.11 to 3.13"),
        ("created successfully because ensurepip is not available.", "python3-venv"),
        ("error: command 'gcc' failed: No such file or directory", "compiler"),
        ("something nobody has seen", "the same way"),
    ],
)
def test_each_kind_of_failure_has_its_remedy(output: str, part_of_remedy: str) -> None:
    assert part_of_remedy in remedy_for(output)


def test_a_wrong_hash_is_named_even_when_pip_also_mentions_the_network() -> None:
    output = "WARNING: ReadTimeoutError\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES"
    assert "other files" in remedy_for(output)


def test_requirements_are_counted_without_hashes_and_comments() -> None:
    lock = (
        "# made by a tool\nnumpy==2 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\nrich==15\n"
    )
    assert requirements_in(lock) == 2


def test_progress_counts_the_packages_that_pip_fetches() -> None:
    assert collected_in("Collecting a==1\n  Downloading a.whl\nCollecting b==2\n") == 2


def test_the_last_lines_leave_out_empty_ones() -> None:
    assert last_lines("one\n\ntwo\nthree\n", count=2) == "    two\n    three"

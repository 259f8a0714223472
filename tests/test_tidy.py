"""What a person would have to remember, kept by a machine.

Sizes are a ratchet: a file or function over the limit needs a written reason in
`LONG_FOR_A_REASON`, and an entry that is no longer needed fails too, so the list can only shrink.
"""

import ast
import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE_FOLDERS = ("orchestrator", "envoy", "model_repository", "builders", "scripts")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

LONG_FOR_A_REASON: dict[str, str] = {}

BANNED_CALLS = {
    "time.sleep": "wait for a condition with a limit (tests), or on an event with a timeout",
    "os.system": "subprocess.run with a list of arguments",
    "pickle.loads": "msgspec or JSON; a pickle runs code",
    "yaml.load": "yaml.safe_load, or msgspec.yaml with a strict type",
    "datetime.utcnow": "an injected clock",
}
# Where a banned call is the right one, with the reason.
BANNED_CALLS_ALLOWED: dict[str, set[str]] = {}

PURE_PACKAGES = ("policy", "routing", "admission", "affinity", "prompt", "postprocess")


def tracked(*suffixes: str) -> list[Path]:
    """Files that git tracks or would add, so that a new file is held before it is committed."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    paths = [ROOT / name for name in names if name]
    return [p for p in paths if p.is_file() and (not suffixes or p.suffix in suffixes)]


def code_files() -> list[Path]:
    return [p for p in tracked(".py") if p.relative_to(ROOT).parts[0] in CODE_FOLDERS]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_stay_small_or_have_a_written_reason() -> None:
    too_long = {}
    for path in tracked(".py"):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if (lines := text.count("\n")) > FILE_LINES_MAX:
            too_long[name] = lines
        for function in functions(ast.parse(text)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                too_long[f"{name}::{function.name}"] = lines
    unexplained = {k: v for k, v in too_long.items() if k not in LONG_FOR_A_REASON}
    assert not unexplained, f"over {FILE_LINES_MAX}/{FUNCTION_LINES_MAX} lines: {unexplained}"
    assert not set(LONG_FOR_A_REASON) - set(too_long), "no longer long: take the entry out"


def test_no_banned_call_is_made_where_a_better_one_exists() -> None:
    found = []
    for path in tracked(".py"):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            call = ast.unparse(node.func)
            if call in BANNED_CALLS and name not in BANNED_CALLS_ALLOWED.get(call, set()):
                found.append(f"{name}:{node.lineno} {call}: use {BANNED_CALLS[call]}")
    assert not found, "\n".join(found)


def test_the_envoy_folder_is_no_package_because_xds_protos_owns_that_import_name() -> None:
    assert not (ROOT / "envoy/__init__.py").exists()


def test_every_code_module_says_what_it_owns() -> None:
    silent = [
        p.relative_to(ROOT).as_posix()
        for p in code_files()
        if p.name != "__init__.py" and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not silent, f"no module docstring: {silent}"


def module_name(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("").as_posix()
    for prefix in ("envoy/", "model_repository/completion/1/"):
        relative = relative.removeprefix(prefix)
    return relative.removesuffix("/__init__").replace("/", ".")


def imported_names(path: Path) -> Iterator[str]:
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_no_module_is_dead() -> None:
    """A module is alive when other code imports it, a launcher runs it, or it is a program."""
    used = {
        name
        for path in tracked(".py")
        if "tests" not in path.parts
        for name in imported_names(path)
    }
    folders = {"scripts", ".ci"}
    scripts = [p for p in tracked("") if p.relative_to(ROOT).parts[0] in folders]
    launchers = "\n".join(p.read_text() for p in scripts)
    dead = [
        name
        for path in code_files()
        if path.name not in {"__init__.py", "model.py"}
        and (name := module_name(path)) not in used
        and '__name__ == "__main__"' not in path.read_text()
        and name not in launchers
        and not name.startswith("scripts.benches.")  # found by name
        and not name.rsplit(".", 1)[-1].startswith("fake")  # shipped beside its Protocol, for tests
    ]
    assert not dead, f"nothing uses: {dead}"


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_decision_packages_exist_and_are_held_pure_by_an_import_contract(package: str) -> None:
    assert (ROOT / "orchestrator" / package).is_dir() or (
        ROOT / f"orchestrator/{package}.py"
    ).is_file()
    assert f'"orchestrator.{package}"' in (ROOT / "pyproject.toml").read_text()


def metric_names() -> set[str]:
    """Names of all metrics, from the objects that emit them."""
    from prometheus_client import CollectorRegistry

    from orchestrator.affinity.epochs import Epochs
    from orchestrator.clock import ManualClock
    from orchestrator.record.metrics import RequestMetrics
    from orchestrator.record.state_metrics import StateMetrics
    from replica.load_report import LoadReport
    from tests.support.orchestrator import affinity_of

    registry = CollectorRegistry()
    RequestMetrics(registry)
    registry.register(StateMetrics(affinity_of(), Epochs(1, 1), ManualClock()))
    names = {metric.name for metric in registry.collect()}
    names |= {f"warmline_replica_{field.name}" for field in dataclasses.fields(LoadReport)}
    names |= {"warmline_replica_stuck", "warmline_replica_engine_info"}
    status = (ROOT / "envoy/control_plane/status.py").read_text()
    names |= {f"warmline_control_plane_{name}" for name in re.findall(r"{prefix}_(\w+)", status)}
    return {name.removesuffix("_total") for name in names}


def test_the_metrics_document_names_every_metric_and_no_other() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    documented = set(re.findall(r"`(warmline_[a-z0-9_]+)", text))
    assert {name.removesuffix("_total") for name in documented} == metric_names()


def test_every_setting_is_documented() -> None:
    from orchestrator.settings import Settings

    text = (ROOT / "docs/operations.md").read_text()
    missing = [name for name in Settings.__struct_fields__ if f"`{name}`" not in text]
    assert not missing, f"not in docs/operations.md: {missing}"


def test_no_file_names_one_machine_or_a_registry_host() -> None:
    leak = re.compile(
        r"(^|[^\w.\-])/(wor[k]|far[m]|roo[t])/|https?://[a-z.]*(pypi|pythonh|npmjs|debian)[a-z.]*"
    )
    texts = tracked(".py", ".md", ".toml", ".yaml", ".txt", ".pbtxt", ".json", ".template", "")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if leak.search(line)
    ]
    assert not found, f"one machine's paths or registry hosts: {found}"


def test_links_in_the_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        f"{path.relative_to(ROOT)} -> {target}"
        for path in tracked(".md")
        if "reference_model" not in path.parts
        for target in link.findall(path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken, f"dead links: {broken}"


def test_shell_launchers_are_executable_and_say_what_they_do() -> None:
    launchers = [p for p in tracked("") if p.relative_to(ROOT).parts[0] == "scripts"]
    assert launchers
    not_executable = [p.name for p in launchers if not p.stat().st_mode & 0o100]
    assert not not_executable

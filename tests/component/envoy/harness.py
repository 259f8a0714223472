"""A real Envoy with a control plane before in-process fakes, for tests and measurements.

    async with EnvoyStack(folder, replicas=2, workers=1) as stack:
        answer = await stack.infer("session-a")

Everything listens on free ports of 127.0.0.1; leaving the block ends every process.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
import httpx
import msgspec
from tritonclient.grpc import service_pb2, service_pb2_grpc

from control_plane.bootstrap import render
from control_plane.topology import Address
from tests.component.envoy.fakes import FakeReplica, FakeWorker

ROOT = Path(__file__).resolve().parents[3]
HOST = "127.0.0.1"
STOP_LIMIT_S = 5.0


def envoy_binary() -> Path:
    """Envoy's binary: WARMLINE_ENVOY, else the installed environment's."""
    path = Path(os.environ.get("WARMLINE_ENVOY", ROOT / "var/env/envoy/bin/envoy"))
    if not path.exists():
        raise FileNotFoundError(f"no Envoy at {path}: run scripts/up once or set WARMLINE_ENVOY")
    return path


async def until(condition: Callable[[], Any], what: str, limit_s: float = 10.0) -> None:
    """Wait until `condition()` (or its awaited result) is true; fail naming `what` after that."""
    async with asyncio.timeout(limit_s) as limit:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                result = condition()
                if await result if asyncio.iscoroutine(result) else result:
                    return
                await asyncio.sleep(0.02)
    assert not limit.expired(), f"not within {limit_s} s: {what}"


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]


@dataclass(frozen=True)
class Answer:
    """How one inference stream ended. `slot` is Envoy's header, `label` the replica's own word."""

    code: grpc.StatusCode
    message: str = ""
    slot: str = ""
    label: str = ""


class EnvoyStack:
    """Fakes, control plane and Envoy. Change `document` and call `publish` to change the fleet."""

    def __init__(self, folder: Path, replicas: int = 2, workers: int = 1) -> None:
        self.folder = folder
        self.replicas = {f"slot-{i}": FakeReplica(f"slot-{i}") for i in range(replicas)}
        self.workers = [FakeWorker(f"worker-{i}") for i in range(workers)]
        self.document: dict[str, Any] = {}
        self.topology_file = folder / "topology.yaml"
        self.control_plane: subprocess.Popen[bytes] | None = None
        self.concurrency = 1

    async def __aenter__(self) -> Self:
        self._closing = contextlib.AsyncExitStack()
        async with self._closing:
            await self._start_fakes()
            self._make_document()
            self.write()
            self.start_control_plane()
            self._start_envoy()
            self._open_clients()
            await self.wait_until_accepted()
            self._closing = self._closing.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop_control_plane()
        await self._closing.aclose()

    # --- the fleet

    async def _start_fakes(self) -> None:
        for replica in self.replicas.values():
            await replica.start()
            self._closing.push_async_callback(replica.die)
        for worker in self.workers:
            await worker.start()
            self._closing.push_async_callback(worker.stop)

    async def add_replica(self, label: str) -> FakeReplica:
        """A further process; put it into `document` yourself."""
        replica = FakeReplica(label)
        await replica.start()
        self._closing.push_async_callback(replica.die)
        return replica

    def _make_document(self) -> None:
        edge, inference, xds, status, self.admin_port = free_ports(5)
        ports = {"edge": edge, "inference": inference, "control_plane": xds}
        ports["control_plane_status"] = status
        slots = list(self.replicas)
        self.document = {
            "topology_version": 1,
            **{name: {"address": HOST, "port": port} for name, port in ports.items()},
            "workers": [{"name": w.name, "address": HOST, "port": w.port} for w in self.workers],
            "replicas": [replica_entry(slot, r) for slot, r in self.replicas.items()],
            "pools": [{"name": "fast", "slots": slots}, {"name": "large", "slots": slots}],
            "hash_balance_factor": 100.0,  # no spilling, unless a test is about it
            "ramp": {"duration_s": 0},  # nor ramps
        }

    def port(self, name: str) -> int:
        return int(self.document[name]["port"])

    def write(self) -> None:
        fresh = self.topology_file.with_suffix(".new")
        fresh.write_bytes(msgspec.yaml.encode(self.document))
        fresh.replace(self.topology_file)

    async def publish(self) -> None:
        """Write `document`; returns when Envoy has accepted a version other than the last."""
        before = (await self.status())["published_version"]
        self.write()

        async def is_new() -> bool:
            return bool((await self.status())["published_version"] != before)

        await until(is_new, "the control plane publishes a new version")
        await self.wait_until_accepted()

    # --- processes

    def start_control_plane(self) -> None:
        self.control_plane = self._popen(
            "control_plane.log",
            [sys.executable, "-m", "control_plane.main", "--topology", str(self.topology_file)],
        )

    def stop_control_plane(self, *, kill: bool = False) -> int:
        """End it with SIGTERM, or as a crash; returns its exit status."""
        process, self.control_plane = self.control_plane, None
        if process is None:
            return 0
        return end(process, kill=kill)

    def _start_envoy(self) -> None:
        bootstrap = self.folder / "envoy.yaml"
        control_plane = Address(HOST, self.port("control_plane"))
        bootstrap.write_text(render("envoy-test", control_plane, Address(HOST, self.admin_port)))
        options = ["--concurrency", str(self.concurrency), "--disable-hot-restart"]
        options += ["--log-level", "warning"]
        command = [str(envoy_binary()), "-c", str(bootstrap), *options]
        self._closing.callback(end, self._popen("envoy.log", command))

    def _popen(self, log_name: str, command: list[str]) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "envoy")}
        with (self.folder / log_name).open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    # --- what is asked of it

    def _open_clients(self) -> None:
        self.http = httpx.AsyncClient(base_url=f"http://{HOST}:{self.port('edge')}", timeout=10)
        self._closing.push_async_callback(self.http.aclose)
        self.channel = grpc.aio.insecure_channel(f"{HOST}:{self.port('inference')}")
        self._closing.push_async_callback(self.channel.close)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self._own = httpx.AsyncClient(timeout=2)
        self._closing.push_async_callback(self._own.aclose)

    async def status(self) -> dict[str, Any]:
        """The control plane's status page."""
        page = f"http://{HOST}:{self.port('control_plane_status')}/status"
        answer: dict[str, Any] = (await self._own.get(page)).json()
        return answer

    async def change(self, slot: str, what: str, **options: Any) -> httpx.Response:
        """Ask the control plane to `drain` or `undrain` a slot."""
        page = f"http://{HOST}:{self.port('control_plane_status')}/v1/replicas/{slot}/{what}"
        return await self._own.post(page, json=options or None)

    async def slot(self, slot: str) -> dict[str, Any]:
        """What the control plane says of a slot."""
        slots = (await self.status())["slots"]
        return next(each for each in slots if each["slot"] == slot)

    async def wait_until_accepted(self) -> None:
        """Envoy has accepted the published version in all four types, and its clusters are warm."""

        async def accepted() -> bool:
            try:
                status = await self.status()
            except httpx.HTTPError:
                return False
            versions = [
                state["accepted_version"]
                for node in status["nodes"]
                for state in node["types"].values()
            ]
            return versions == [status["published_version"]] * 4

        await until(accepted, "Envoy accepts the published version")
        await until(self._is_live, "Envoy is ready")
        # A changed cluster serves only when its endpoints' first health checks are through.
        await until(self._is_warm, "Envoy's changed clusters are warm")

    async def _is_live(self) -> bool:
        try:
            ready = await self._own.get(f"http://{HOST}:{self.admin_port}/ready")
        except httpx.HTTPError:
            return False
        return ready.status_code == 200

    async def _is_warm(self) -> bool:
        return await self.counter("cluster_manager.warming_clusters") == 0

    async def counter(self, name: str) -> int:
        """One of Envoy's own counters or gauges; 0 where it does not exist yet."""
        page = f"http://{HOST}:{self.admin_port}/stats?filter=^{name}$"
        line = (await self._own.get(page)).text.strip()
        return int(line.rpartition(" ")[2]) if line else 0

    def open_stream(
        self,
        session: str | None,
        *,
        pool: str | None = "fast",
        model: str = "completion",
        timeout_s: float | None = 10,
    ) -> Any:
        """A started `ModelStreamInfer` call with one request; see FakeReplica for `model`."""
        metadata = [("x-warmline-pool", pool), ("x-warmline-session", session)]
        return self.stub.ModelStreamInfer(
            iter([service_pb2.ModelInferRequest(model_name=model)]),
            metadata=[(name, value) for name, value in metadata if value is not None],
            timeout=timeout_s,
        )

    async def infer(self, session: str | None, **options: Any) -> Answer:
        """Run one stream to its end."""
        return await finish(self.open_stream(session, **options))

    async def refusal(self, session: str | None, **options: Any) -> Answer:
        """`infer` for what Envoy answers itself.

        Such an answer can overtake the request, and then the client's failed write hides its
        status behind an error of the client library's own; ask again.
        """
        for _ in range(10):
            answer = await self.infer(session, **options)
            if answer.message != "Internal error from Core":
                break
        return answer

    async def place(self, sessions: Iterable[str]) -> dict[str, str]:
        """The slot of each session; every stream must succeed."""
        placed = {}
        for session in sessions:
            answer = await self.infer(session)
            assert answer.code is grpc.StatusCode.OK, answer
            placed[session] = answer.slot
        return placed


async def finish(call: Any) -> Answer:
    """Read a stream to its end; errors are answers here."""
    label = ""
    try:
        headers = dict(await call.initial_metadata() or ())
        while (response := await call.read()) is not grpc.aio.EOF:
            label = response.infer_response.model_name
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), error.details() or "")
    return Answer(await call.code(), slot=str(headers.get("x-warmline-replica", "")), label=label)


def replica_entry(slot: str, replica: FakeReplica, **more: Any) -> dict[str, Any]:
    """The topology's entry for a process in a slot."""
    ports = {"port": replica.port, "status_port": replica.status_port}
    return {"slot": slot, "address": HOST, **ports, **more}


def end(process: subprocess.Popen[bytes], *, kill: bool = False) -> int:
    """End a process, gently first; returns its exit status."""
    if kill:
        process.kill()
    else:
        process.terminate()
    try:
        return process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(STOP_LIMIT_S)


@contextlib.asynccontextmanager
async def envoy_stack(folder: Path, **options: int) -> AsyncIterator[EnvoyStack]:
    """`EnvoyStack` whose logs are printed where it does not come up."""
    stack = EnvoyStack(folder, **options)
    try:
        await stack.__aenter__()
    except BaseException:
        _print_logs(folder)
        raise
    try:
        yield stack
    finally:
        await stack.__aexit__()


def _print_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*.log")):
        print(f"--- {log.name}\n{log.read_text()[-4000:]}")

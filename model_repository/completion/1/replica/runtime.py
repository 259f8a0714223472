"""Puts a replica together: settings to engine, loop, trace and status listener."""

import threading
import time

from replica.engine import Engine
from replica.engine_host import EngineHost
from replica.engine_loop import EngineLoop, LoopLimits
from replica.fake_engine import FakeEngine, FakePace
from replica.manifest import read_manifest
from replica.request import Tensors, parse_request
from replica.sequence import Responder
from replica.settings import ReplicaSettings
from replica.status_server import Status, StatusServer
from replica.trace import FileTrace, NoTrace

_FAKE_BLOCKS = 4_096


def monotonic_us() -> int:
    """The process's monotonic clock in microseconds."""
    return time.monotonic_ns() // 1_000


class Replica:
    """A replica: `start` once, `submit` from any thread, `stop` once."""

    def __init__(self, settings: ReplicaSettings) -> None:
        self._settings = settings
        self._manifest = read_manifest(settings.engine_dir)
        self._host = EngineHost(self._build_engine, monotonic_us)
        self._loop = EngineLoop(
            self._host,
            LoopLimits(settings.live_sequences_max, settings.waiting_sequences_max),
            monotonic_us,
            FileTrace(settings.trace_file) if settings.trace_file else NoTrace(),
        )
        self._status = StatusServer(settings.status_port, self.status)

    @property
    def status_port(self) -> int:
        """The port of the status listener."""
        return self._status.port

    def start(self) -> None:
        """Answer status requests, load the engine, then take work.

        Raises:
            EngineFailedError: the engine cannot be built.
        """
        self._status.start()
        self._host.load()
        self._loop.start()

    def submit(self, tensors: Tensors, responder: Responder) -> None:
        """Take a request's input tensors; the responses go to `responder`.

        Raises:
            ReplicaError: the request is refused, and `responder` will not be used.
        """
        self._loop.submit(parse_request(tensors, self._manifest), responder)

    def stop(self) -> None:
        """Cancel what runs, end every thread."""
        self._loop.stop()
        self._status.stop()

    def status(self) -> Status:
        """What the listener shows; from any thread."""
        limit_us = self._settings.step_limit_ms * 1_000
        stuck = self._host.is_stuck(limit_us)
        trouble = None
        if not self._host.is_loaded:
            trouble = "no engine: it is loading, or broke and is being rebuilt"
        elif stuck:
            trouble = f"stuck: a step takes longer than {self._settings.step_limit_ms} ms"
        return Status(trouble, stuck, self._manifest.engine_digest, self._loop.report())

    def _build_engine(self) -> Engine:
        settings, manifest = self._settings, self._manifest
        if settings.engine == "fake":
            pace = FakePace(
                settings.fake_step_us,
                settings.fake_prefill_tokens_per_s,
                settings.prefill_tokens_per_step,
            )
            return FakeEngine(manifest, _FAKE_BLOCKS, pace, wait_us)
        # The library is loaded only where its engine is chosen: the fake needs none of it.
        from replica.openvino_engine import OpenVinoEngine, OpenVinoOptions  # noqa: PLC0415 - above

        options = OpenVinoOptions(
            cache_bytes=settings.cache_bytes,
            threads=settings.engine_threads,
            precision=settings.engine_precision,
            prefill_tokens_per_step=settings.prefill_tokens_per_step,
        )
        return OpenVinoEngine(manifest, options)


def wait_us(duration_us: int) -> None:
    """Hold the calling thread for a time, as computing would."""
    if duration_us:
        threading.Event().wait(duration_us / 1e6)

"""One orchestrator worker: reads settings, builds everything, serves until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Coroutine
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIServer

import httpx
import uvloop
from prometheus_client import CollectorRegistry, start_http_server

from orchestrator.admission import Permits
from orchestrator.affinity import Affinity
from orchestrator.affinity.epochs import Epochs
from orchestrator.app import NativeCompletions, build_app
from orchestrator.clock import Clock, SystemClock
from orchestrator.deadline import DeadlineLimits
from orchestrator.failure import location_of
from orchestrator.generation.inference import InferenceClient
from orchestrator.generation.triton import TritonClient
from orchestrator.load.fleet import Fleet
from orchestrator.load.poller import Poller
from orchestrator.pipeline import Pipeline
from orchestrator.policy import PERMISSIVE
from orchestrator.pools import Pools
from orchestrator.postprocess import Chain
from orchestrator.prompt.engine import load_engine
from orchestrator.prompt.recipe_documents import RecipeError, read_recipe
from orchestrator.prompt.segments import SegmentTable
from orchestrator.readiness import Readiness
from orchestrator.record.metrics import RequestMetrics
from orchestrator.record.recorder import Recorder
from orchestrator.record.state_metrics import StateMetrics
from orchestrator.serving import http_server, keep_stopping_clean
from orchestrator.session import SessionHasher, SessionSecretError
from orchestrator.session_secret import SecretFile, read_session_secret
from orchestrator.settings import Address, Settings, SettingsError, read_settings

_ENGINE_RETRY_SECONDS = 2.0

_log = logging.getLogger(__name__)


def build_pools(settings: Settings) -> Pools:
    """The pools of the settings, their engines not loaded yet; raises `RecipeError`."""
    recipe = read_recipe(settings.recipe)
    return Pools(
        {pool.name: Path(pool.engine_dir) for pool in settings.pools},
        lambda engine_dir: load_engine(engine_dir, recipe, SegmentTable()),
    )


def build_sessions(settings: Settings) -> tuple[Affinity, Epochs]:
    """What the worker remembers of editing sessions, empty."""
    entries_max, idle_ms = settings.sessions.entries_max, settings.sessions.idle_s * 1000
    fleet = Fleet.unknown(replica.slot for replica in settings.replicas)
    affinity = Affinity(fleet, entries_max=entries_max, idle_ms=idle_ms)
    return affinity, Epochs(entries_max, idle_ms)


def build_pipeline(
    settings: Settings,
    *,
    pools: Pools,
    client: InferenceClient,
    hasher: SessionHasher,
    affinity: Affinity,
    epochs: Epochs,
    metrics: RequestMetrics,
    clock: Clock,
) -> Pipeline:
    """The pipeline with all its stages."""
    return Pipeline(
        clock=clock,
        policy_of=lambda tenant: PERMISSIVE,
        pools=pools,
        development_tenant=settings.development_tenant,
        deadlines=DeadlineLimits(
            settings.limits.line_deadline_ms, settings.limits.block_deadline_ms
        ),
        permits=Permits(settings.limits.worker_in_flight, settings.limits.pool_in_flight),
        hasher=hasher,
        epochs=epochs,
        client=client,
        chain=Chain(),
        recorder=Recorder(hasher, metrics, clock, affinity),
    )


def build_poller(
    settings: Settings, http: httpx.AsyncClient, clock: Clock, affinity: Affinity
) -> Poller:
    """What keeps `affinity` informed of the replicas."""
    return Poller(
        {replica.slot: replica.status_url for replica in settings.replicas},
        http,
        clock,
        control_plane_url=settings.control_plane_status_url,
        on_fleet=affinity.saw,
    )


async def serve(settings: Settings, hasher: SessionHasher, secret: bytes) -> None:
    """Serves until SIGTERM or SIGINT, then lets what is in flight finish for a moment."""
    registry, clock = CollectorRegistry(), SystemClock()
    metrics = RequestMetrics(registry)
    pools = build_pools(settings)
    client = TritonClient(settings.inference.target)
    affinity, epochs = build_sessions(settings)
    pipeline = build_pipeline(
        settings,
        pools=pools,
        client=client,
        hasher=hasher,
        affinity=affinity,
        epochs=epochs,
        metrics=metrics,
        clock=clock,
    )
    registry.register(StateMetrics(affinity, epochs, clock))
    completions = NativeCompletions(pipeline, metrics, clock, settings.development_tenant)
    # These are addresses of our own: a proxy of the environment has no business with them.
    probes = httpx.AsyncClient(trust_env=False)
    poller = build_poller(settings, probes, clock, affinity)
    readiness = Readiness(pools, settings.inference, lambda: poller.fleet, clock)
    app = build_app(completions, readiness.missing)
    metrics_server, metrics_thread = _serve_metrics(settings.metrics, registry)
    secret_file = SecretFile(Path(settings.session_secret_file), hasher, secret)
    background = [
        _start(work) for work in (_load_engines(pools), poller.run(), secret_file.follow())
    ]
    try:
        await http_server(app, settings.listen).serve()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        affinity.close(clock.now_ms())
        await client.close()
        await probes.aclose()
        metrics_server.shutdown()
        metrics_thread.join()


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Starts background work; should it ever fail, that is said at once and not at the end."""
    task = asyncio.create_task(work)
    task.add_done_callback(_say_how_it_ended)
    return task


def _say_how_it_ended(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("background work failed: %s at %s", type(error).__name__, location_of(error))


def _serve_metrics(listen: Address, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    """Metrics on a port of their own, from a thread: a scrape must not wait behind requests."""
    try:
        return start_http_server(listen.port, listen.address, registry)
    except OSError as error:
        raise SettingsError(
            f"metrics: cannot listen on {listen.target}: {error.strerror}; "
            "stop what listens there, or name another port"
        ) from error


async def _load_engines(pools: Pools) -> None:
    """Loads engines, and tries again while any is missing: the builder may still be at work."""
    while True:
        await asyncio.to_thread(pools.load_missing)
        if not pools.missing:
            break
        for name, reason in pools.missing.items():
            _log.warning("pool %s has no engine: %s", name, reason)
        await asyncio.sleep(_ENGINE_RETRY_SECONDS)
    # What is there now stays for the process's life. A full collection over it takes 40 ms and
    # more, five times the budget of a slow request; frozen objects are not looked at again.
    gc.collect()
    gc.freeze()


def main() -> int:
    """Command line: `--settings FILE`; exit status 2 for settings that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.main", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="YAML file of settings")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # One line for each probe of each replica would bury everything else.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = read_settings(arguments.settings)
        secret = read_session_secret(Path(settings.session_secret_file))
        hasher = SessionHasher(secret)
        keep_stopping_clean()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, hasher, secret))
    except (SettingsError, SessionSecretError, RecipeError) as error:
        print(f"orchestrator: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

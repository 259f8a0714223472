"""One orchestrator worker: reads settings, builds everything, serves until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIServer

import httpx
import uvloop
from prometheus_client import CollectorRegistry, start_http_server

from orchestrator.admission import Permits
from orchestrator.app import NativeCompletions, build_app
from orchestrator.clock import Clock, SystemClock
from orchestrator.deadline import DeadlineLimits
from orchestrator.generation.inference import InferenceClient
from orchestrator.generation.triton import TritonClient
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
from orchestrator.serving import http_server, keep_stopping_clean
from orchestrator.session import SessionHasher, SessionSecretError
from orchestrator.session_secret import read_session_secret
from orchestrator.settings import Address, Settings, SettingsError, read_settings

_ENGINE_RETRY_SECONDS = 2.0


def build_pools(settings: Settings) -> Pools:
    """The pools of the settings, their engines not loaded yet; raises `RecipeError`."""
    recipe = read_recipe(settings.recipe)
    return Pools(
        {pool.name: Path(pool.engine_dir) for pool in settings.pools},
        lambda engine_dir: load_engine(engine_dir, recipe, SegmentTable()),
    )


def build_pipeline(
    settings: Settings,
    *,
    pools: Pools,
    client: InferenceClient,
    hasher: SessionHasher,
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
        client=client,
        chain=Chain(),
        recorder=Recorder(hasher, metrics, clock),
    )


async def serve(settings: Settings, hasher: SessionHasher) -> None:
    """Serves until SIGTERM or SIGINT, then lets what is in flight finish for a moment."""
    registry, clock = CollectorRegistry(), SystemClock()
    metrics = RequestMetrics(registry)
    pools = build_pools(settings)
    client = TritonClient(settings.inference.target)
    pipeline = build_pipeline(
        settings, pools=pools, client=client, hasher=hasher, metrics=metrics, clock=clock
    )
    completions = NativeCompletions(pipeline, metrics, clock, settings.development_tenant)
    probes = httpx.AsyncClient()
    readiness = Readiness(pools, settings.inference, settings.replicas, probes)
    app = build_app(completions, readiness.missing)
    metrics_server, metrics_thread = _serve_metrics(settings.metrics, registry)
    loading = asyncio.create_task(_load_engines(pools))
    try:
        await http_server(app, settings.listen).serve()
    finally:
        loading.cancel()
        await client.close()
        await probes.aclose()
        metrics_server.shutdown()
        metrics_thread.join()


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
            logging.getLogger(__name__).warning("pool %s has no engine: %s", name, reason)
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
        hasher = SessionHasher(read_session_secret(Path(settings.session_secret_file)))
        keep_stopping_clean()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, hasher))
    except (SettingsError, SessionSecretError, RecipeError) as error:
        print(f"orchestrator: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

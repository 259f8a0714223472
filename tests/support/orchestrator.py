"""Shared by the orchestrator's tests: real parts around the reference tokenizer, and builders."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.admission import Permits
from orchestrator.affinity import Affinity
from orchestrator.affinity.epochs import Epochs
from orchestrator.clock import Clock, ManualClock
from orchestrator.deadline import DeadlineLimits
from orchestrator.generation.fake import FakeInferenceClient
from orchestrator.load.fleet import Fleet, ReplicaLoad
from orchestrator.pipeline import Pipeline
from orchestrator.policy import PERMISSIVE, PolicyDocument
from orchestrator.pools import Pools
from orchestrator.postprocess import Chain
from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.engine_manifest import (
    EngineManifest,
    FimFamily,
    FimTemplate,
    ManifestFile,
    ManifestFiles,
    Origin,
)
from orchestrator.prompt.recipe import PromptRecipe
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from orchestrator.prompt.segments import SegmentTable
from orchestrator.prompt.tokenizer import TextTokenizer
from orchestrator.record.recorder import Recorder
from orchestrator.record.sinks import RecordSink
from orchestrator.request import (
    Client,
    CompletionRequest,
    Document,
    EditingSession,
    Principal,
    Role,
    Tier,
)
from orchestrator.session import SessionHasher

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER_FILE = ROOT / "builders/reference_model/tokenizer.json"
SECRET = bytes(range(32))
DEVELOPER = Principal("development", "developer", Tier.ENTERPRISE, Role.USER)


def manifest(**changes: Any) -> EngineManifest:
    fields: dict[str, Any] = {
        "manifest_version": 1,
        "engine_digest": "sha256:0123",
        "origin": Origin.REFERENCE,
        "context_tokens": 1536,
        "reserved_salt_tokens": 8,
        "fim": FimTemplate(FimFamily.SUFFIX_FIRST, 1, 3, 2, 6),
        "end_ids": (0,),
        "control_ids": (0, 1, 2, 3, 4, 5, 6),
        "files": ManifestFiles(ManifestFile("tokenizer.json", "")),
    }
    return EngineManifest(**fields | changes)


@cache
def tokenizer() -> TextTokenizer:
    return TextTokenizer(TOKENIZER_FILE.read_bytes(), manifest())


def prompt_engine(recipe: PromptRecipe | None = None, **changes: Any) -> PromptEngine:
    recipe = recipe or read_recipe(DEFAULT_RECIPE)
    return PromptEngine(manifest(**changes), tokenizer(), recipe, SegmentTable())


def text_of(token_ids: Any) -> str:
    """The text of token ids; control ids are spelled out."""
    return b"".join(tokenizer().token_bytes[each] for each in token_ids).decode("utf-8", "replace")


def request(prefix: str = "x = ", suffix: str = "\n", **fields: Any) -> CompletionRequest:
    document = {
        name: fields.pop(name)
        for name in ("path", "language", "version", "repository", "prefix_start_line")
        if name in fields
    }
    defaults: dict[str, Any] = {
        "completion_id": "c-1",
        "request_id": "r-1",
        "principal": DEVELOPER,
        "client": Client("vim", "1.0"),
        "session": EditingSession("installation", "document"),
        "received_ms": 0.0,
        "arrived_ms": 0.0,
    }
    return CompletionRequest(document=Document(prefix, suffix, **document), **defaults | fields)


IDLE_MS = 600_000


def load_report(computed: int = 0, failures: int = 0) -> ReplicaLoad:
    """What an idle replica reports, with the counters that tell one cache from the next."""
    return ReplicaLoad(
        live_sequences=0,
        waiting_sequences=0,
        step_us=2_500,
        prefill_tokens_per_s=5_000,
        warm_sessions=1,
        prompt_tokens_computed_total=computed,
        engine_failures_total=failures,
    )


def affinity_of(*slots: str, entries_max: int = 100) -> Affinity:
    """A memory of sessions over slots that nothing is known of yet."""
    return Affinity(Fleet.unknown(slots), entries_max=entries_max, idle_ms=IDLE_MS)


def pipeline(
    client: FakeInferenceClient,
    sink: RecordSink,
    clock: Clock | None = None,
    *,
    policy: PolicyDocument = PERMISSIVE,
    permits: Permits | None = None,
    pools: Pools | None = None,
    chain: Chain | None = None,
    affinity: Affinity | None = None,
    epochs: Epochs | None = None,
    hasher: SessionHasher | None = None,
) -> Pipeline:
    clock = clock or ManualClock()
    hasher = hasher or SessionHasher(SECRET)
    affinity = affinity if affinity is not None else affinity_of("fake")
    if pools is None:
        pools = Pools({"fast": Path("engine"), "large": Path("engine")}, lambda _: prompt_engine())
        pools.load_missing()
    return Pipeline(
        clock=clock,
        policy_of=lambda tenant: policy,
        pools=pools,
        development_tenant="development",
        deadlines=DeadlineLimits(),
        permits=permits or Permits(8, 8),
        hasher=hasher,
        epochs=epochs if epochs is not None else Epochs(100, IDLE_MS),
        client=client,
        chain=chain or Chain(),
        recorder=Recorder(hasher, sink, clock, affinity),
    )

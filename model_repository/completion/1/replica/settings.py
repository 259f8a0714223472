"""The replica's settings, read once from the environment that the supervisor gives it.

Rule: frozen after start, and a value out of range is an error, never a silent default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


class SettingsError(Exception):
    """A setting is missing or out of range; the message names it."""


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """Every setting of a replica (docs/triton-contract.md lists their environment variables).

    Attributes:
        engine_dir: folder with manifest.json and the weights.
        engine: `openvino`, or `fake` for tests and for measuring everything but the model.
        status_port: of the status listener on the loopback interface; 0 picks a free one.
        cache_bytes: upper limit of the key-value cache.
        trace_file: one JSON line per finished sequence, or None.
        live_sequences_max: sequences in the engine at once.
        waiting_sequences_max: accepted sequences that wait for a place; more are refused.
        prefill_tokens_per_step: prompt tokens computed in one step, over all sequences.
        engine_threads: inference threads.
        engine_precision: `f32`, whose tokens do not depend on what else is in the batch, or
            `bf16`, which computes prompts about 1.6 times as fast on a CPU that has it.
        step_limit_ms: a step that takes longer makes the replica count as stuck.
        fake_step_us: pace of the fake engine; 0 for instant.
        fake_prefill_tokens_per_s: pace of the fake engine's prefill; 0 for instant.
    """

    engine_dir: Path
    engine: str = "openvino"
    status_port: int = 0
    cache_bytes: int = DEFAULT_CACHE_BYTES
    trace_file: Path | None = None
    live_sequences_max: int = 16
    waiting_sequences_max: int = 64
    prefill_tokens_per_step: int = 256
    engine_threads: int = 2
    engine_precision: str = "f32"
    step_limit_ms: int = 5_000
    fake_step_us: int = 0
    fake_prefill_tokens_per_s: int = 0


def read_settings(environment: Mapping[str, str]) -> ReplicaSettings:
    """The settings in `environment`.

    Raises:
        SettingsError: WARMLINE_ENGINE_DIR is missing, or a value is not what it must be.
    """
    if not environment.get("WARMLINE_ENGINE_DIR"):
        raise SettingsError("WARMLINE_ENGINE_DIR must name the engine folder, is not set")
    trace_file = environment.get("WARMLINE_TRACE_FILE")

    def number(name: str, default: int, least: int, most: int) -> int:
        return _number(environment, f"WARMLINE_{name}", default, least, most)

    return ReplicaSettings(
        engine_dir=Path(environment["WARMLINE_ENGINE_DIR"]),
        engine=_choice(environment, "WARMLINE_ENGINE", ("openvino", "fake")),
        status_port=number("STATUS_PORT", 0, 0, 65_535),
        cache_bytes=number("CACHE_BYTES", DEFAULT_CACHE_BYTES, 1 << 20, 1 << 44),
        trace_file=Path(trace_file) if trace_file else None,
        live_sequences_max=number("LIVE_SEQUENCES_MAX", 16, 1, 256),
        waiting_sequences_max=number("WAITING_SEQUENCES_MAX", 64, 1, 4_096),
        prefill_tokens_per_step=number("PREFILL_TOKENS_PER_STEP", 256, 32, 65_536),
        engine_threads=number("ENGINE_THREADS", 2, 1, 256),
        engine_precision=_choice(environment, "WARMLINE_ENGINE_PRECISION", ("f32", "bf16")),
        step_limit_ms=number("STEP_LIMIT_MS", 5_000, 10, 600_000),
        fake_step_us=number("FAKE_STEP_US", 0, 0, 10_000_000),
        fake_prefill_tokens_per_s=number("FAKE_PREFILL_TOKENS_PER_S", 0, 0, 1_000_000_000),
    )


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The variable's value; the first choice is the default."""
    value = environment.get(name) or choices[0]
    if value not in choices:
        raise SettingsError(f"{name} must be {' or '.join(choices)}, is {value}")
    return value


def _number(environment: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise SettingsError(f"{name} must be a number from {least} to {most}, is {text}")
    return int(text)

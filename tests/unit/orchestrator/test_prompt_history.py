"""What is counted of a prompt against its session's previous one, and where the counts go."""

from __future__ import annotations

import argparse
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from orchestrator.generation.fake import FakeInferenceClient, answer_with
from orchestrator.prompt.history import BLOCK_TOKENS, Continuity, PromptHistory, SnippetChange
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe_documents import read_recipe, shipped_recipes
from orchestrator.record.metrics import RequestMetrics
from orchestrator.record.sinks import MemorySink, Tee
from orchestrator.request import Snippet, SnippetKind
from tests.support.orchestrator import pipeline, prompt_engine, request, tokenizer

SOURCE = inspect.getsource(argparse)
CURSOR = SOURCE.index("def __init__") + 40


def prompt_of(prefix: str, suffix: str = "", region: str = "", *snippets: str) -> FimPrompt:
    sent = tuple(
        Snippet(SnippetKind.OPEN_TAB, text, f"{number}.py") for number, text in enumerate(snippets)
    )
    parts = PromptParts(prefix, suffix, "a.py", 0, sent, region)
    return prompt_engine().compose(parts, b"salt")


def test_the_first_prompt_of_a_session_has_nothing_to_be_compared_with() -> None:
    history, prompt = PromptHistory(), prompt_of("x = ")
    assert history.compare("one", "", prompt) == Continuity(None, None)
    assert history.compare("two", "", prompt) == Continuity(None, None)
    shared = len(prompt.token_ids) // BLOCK_TOKENS * BLOCK_TOKENS
    assert history.compare("one", "", prompt) == Continuity(shared, None)


@given(st.integers(0, 20_000), st.text(alphabet="abc_(.= \n", max_size=30))
def test_shared_tokens_are_the_leading_ones_that_both_have_in_whole_blocks(
    cursor: int, typed: str
) -> None:
    history = PromptHistory()
    first = prompt_of(SOURCE[:cursor], SOURCE[cursor:])
    second = prompt_of(SOURCE[:cursor] + typed, SOURCE[cursor:])
    history.compare("session", "", first)
    shared = history.compare("session", "", second).shared_tokens
    pairs = list(zip(first.token_ids, second.token_ids, strict=False))
    exact = next((n for n, (one, two) in enumerate(pairs) if one != two), len(pairs))
    assert shared == exact // BLOCK_TOKENS * BLOCK_TOKENS


def test_the_table_keeps_hashes_and_neither_tokens_nor_texts() -> None:
    history = PromptHistory()
    prompt = prompt_of("secret_name = ", "", "secret_region", "secret_snippet = 1")
    history.compare("session", "secret_region", prompt)
    kept = repr(history._sessions)  # its whole content is the claim
    assert "secret" not in kept
    assert str(list(prompt.token_ids)[:4])[1:-1] not in kept


def test_equal_prompts_of_two_sessions_leave_different_hashes() -> None:
    history, prompt = PromptHistory(), prompt_of(SOURCE[:2000])
    history.compare("one", "", prompt)
    history.compare("two", "", prompt)
    one, two = history._sessions.values()
    assert set(one.blocks).isdisjoint(two.blocks)


def test_the_session_that_was_idle_longest_is_forgotten_first() -> None:
    history, prompt = PromptHistory(sessions_max=2), prompt_of("x = ")
    for session in ("one", "two", "one", "three"):
        history.compare(session, "", prompt)
    assert history.compare("one", "", prompt).shared_tokens is not None
    assert history.compare("two", "", prompt).shared_tokens is None


@pytest.mark.parametrize(
    ("second", "region", "reason"),
    [
        (("x = ", "", "r1", "other = 2"), "r2", SnippetChange.REGION),
        (("x = ", "", "r1", "other = 2"), "r1", SnippetChange.CLIENT),
        (("def f():\n" + "y\n" * 40, "", "r1", "other = 2"), "r1", SnippetChange.REFRESH),
        (("x = 1", "", "r1", "first = 1"), "r1", None),
        (("x = 1", "", "r1", "first = 1"), "r2", None),
    ],
)
def test_a_change_of_the_snippets_is_counted_with_its_reason(
    second: tuple[str, ...], region: str, reason: SnippetChange | None
) -> None:
    history = PromptHistory()
    history.compare("session", "r1", prompt_of("x = ", "", "r1", "first = 1"))
    assert history.compare("session", region, prompt_of(*second)).snippet_change is reason


async def test_stable_and_shared_tokens_are_recorded_and_exported_per_recipe() -> None:
    registry, memory = CollectorRegistry(), MemorySink()
    client = FakeInferenceClient(answer_with(list(tokenizer().encode("a"))))
    served = pipeline(client, Tee([RequestMetrics(registry), memory]))
    for typed in ("", "n"):
        prefix, suffix = SOURCE[:CURSOR] + typed, SOURCE[CURSOR:]
        await served.complete(request(prefix, suffix, path="a.py", prefix_start_line=0))
    first, second = memory.records
    assert first.prompt_shared_with_previous is None
    shared = second.prompt_shared_with_previous
    assert shared is not None
    assert second.prompt_stable_tokens - BLOCK_TOKENS < shared < second.usage.prompt_tokens

    def counted(kind: str) -> float | None:
        labels = {"recipe": "default@1", "kind": kind}
        return registry.get_sample_value("warmline_recipe_tokens_total", labels)

    tokens = first.usage.prompt_tokens, second.usage.prompt_tokens
    assert (counted("prompt"), counted("first")) == (sum(tokens), tokens[0])
    assert counted("shared") == shared
    assert counted("stable") == first.prompt_stable_tokens + second.prompt_stable_tokens


@pytest.mark.parametrize("name", shipped_recipes())
def test_typing_shares_nearly_all_by_default_and_little_with_the_volatile_recipe(
    name: str,
) -> None:
    engine = prompt_engine(read_recipe(name))
    total = shared = 0
    for typed in range(60):
        parts = PromptParts(SOURCE[: CURSOR + 3000 + typed], SOURCE[CURSOR + 4000 :], "a.py", 0)
        prompt = engine.compose(parts, b"salt")
        compared = engine.compare("session", "", prompt)
        if compared.shared_tokens is not None:
            total += len(prompt.token_ids)
            shared += compared.shared_tokens
    share = shared / total
    assert {
        "default@1": share > 0.95,
        "prefix-first@1": 0.5 < share < 0.85,
        "volatile@1": share < 0.1,
    }[name], share

"""Token healing: what is held back, how it is matched, and what happens where it does not come."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.generation.fake import FakeInferenceClient, Step, answer_with
from orchestrator.generation.generate import Generated
from orchestrator.generation.healing import HealingDecoder, generate_healed
from orchestrator.generation.inference import InferenceRequest, StopRule
from orchestrator.generation.stopping import BlockRule
from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.healing import Joins, TokenHealing
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.prompt.recipe import HealingMode
from orchestrator.prompt.recipe_documents import DEFAULT_RECIPE, read_recipe
from tests.support.orchestrator import prompt_engine, text_of, tokenizer

ALL_JOIN = Joins(inline=(" ", "\t"), indentation=(" ", "\t"))
NONE_JOINS = Joins(inline=(), indentation=())


def healing(mode: HealingMode, joins: Joins | None = None) -> TokenHealing:
    ours = tokenizer()
    return TokenHealing(mode, joins or ours.joins, ours.encode, ours.token_bytes)


def healing_engine(mode: HealingMode) -> PromptEngine:
    recipe = msgspec.structs.replace(read_recipe(DEFAULT_RECIPE), token_healing=mode)
    return prompt_engine(recipe)


def test_the_reference_tokenizer_joins_spaces_with_words_but_not_indentation() -> None:
    assert tokenizer().joins == Joins(inline=(" ",), indentation=())


@pytest.mark.parametrize(
    ("mode", "prefix", "held"),
    [
        (HealingMode.OFF, "x = ", ""),
        (HealingMode.WHITESPACE, "x = ", " "),
        (HealingMode.WHITESPACE, "x =  ", " "),
        (HealingMode.WHITESPACE, "x =", ""),
        (HealingMode.WHITESPACE, "x = ret", ""),
        (HealingMode.WHITESPACE, "def f():\n    ", ""),
        (HealingMode.WHITESPACE, "x\n", ""),
        (HealingMode.WHITESPACE, "", ""),
        (HealingMode.TOKEN, "x = ", " "),
        (HealingMode.TOKEN, "return", "return"),
        (HealingMode.TOKEN, "x = ret", " ret"),
        (HealingMode.TOKEN, "def f():\n    ret", "ret"),
        (HealingMode.TOKEN, "f(", ""),
        (HealingMode.TOKEN, "", ""),
        (HealingMode.TOKEN, "x\n", ""),
    ],
)
def test_what_is_held_back(mode: HealingMode, prefix: str, held: str) -> None:
    assert healing(mode).held(prefix) == held


def test_a_blank_is_held_only_where_the_tokenizer_joins_it_with_the_next_word() -> None:
    for prefix, expected in (("x = ", " "), ("x\n  ", " "), ("x\n\t", "\t")):
        assert healing(HealingMode.WHITESPACE, ALL_JOIN).held(prefix) == expected
        assert healing(HealingMode.WHITESPACE, NONE_JOINS).held(prefix) == ""


@given(st.text(max_size=60), st.sampled_from(list(HealingMode)))
def test_what_is_held_ends_the_cursors_line_and_prompt_and_held_make_the_prefix(
    prefix: str, mode: HealingMode
) -> None:
    prompt = healing_engine(mode).compose(PromptParts(prefix, ""), b"salt")
    assert prefix.endswith(prompt.held)
    assert "\n" not in prompt.held
    kept = text_of(prompt.token_ids).partition("<|fim_prefix|>")[2].removesuffix("<|fim_middle|>")
    assert kept + prompt.held == prefix


@pytest.mark.parametrize("mode", list(HealingMode))
def test_typing_a_line_only_appends_to_what_stands_before_it(mode: HealingMode) -> None:
    engine, line = healing_engine(mode), "    return self.prompt_tokens + other_value"
    prompts = [
        engine.compose(PromptParts("def f(self):\n" + line[:end], "\n", "a.py", 0), b"salt")
        for end in range(len(line) + 1)
    ]
    stable = {tuple(each.token_ids[: each.stable_tokens]) for each in prompts}
    assert len(stable) == 1
    assert all(len(each.token_ids) - each.stable_tokens < 20 for each in prompts)


def decoded(held: str, *pieces: str) -> tuple[str, HealingDecoder]:
    decoder = HealingDecoder(tokenizer().token_bytes, frozenset({0}), held)
    text = "".join(decoder.feed(tokenizer().encode(piece)) for piece in pieces)
    return text, decoder


@pytest.mark.parametrize(
    ("held", "output", "text", "mismatched"),
    [
        ("", "abc", "abc", False),
        (" ", " abc", "abc", False),
        (" ", "  abc", " abc", False),
        (" ", "abc", "", True),
        (" ", "\n", "", True),
        (" ", "", "", True),
        ("ret", "return x", "urn x", False),
        (" ret", " return x", "urn x", False),
        ("ret", "ret", "", False),
        ("ret", "re", "", True),
        ("ret", "raise", "", True),
        ("ret", "", "", True),
    ],
)
def test_what_was_held_is_taken_off_the_output(
    held: str, output: str, text: str, *, mismatched: bool
) -> None:
    actual, decoder = decoded(held, output)
    assert (actual, decoder.mismatched) == (text, mismatched)


@given(
    st.sampled_from(["", " ", "ret", " ret"]), st.text(alphabet=" retun\n", max_size=12), st.data()
)
def test_the_match_does_not_depend_on_how_the_output_was_cut(
    held: str, output: str, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(output)))
    whole, at_once = decoded(held, output)
    pieces, in_two = decoded(held, output[:cut], output[cut:])
    assert (whole, at_once.mismatched) == (pieces, in_two.mismatched)


async def generated(
    client: FakeInferenceClient, mode: HealingMode, prefix: str, block: BlockRule | None = None
) -> Generated:
    engine = healing_engine(mode)
    parts = PromptParts(prefix, "")

    def sequence(prompt: FimPrompt) -> InferenceRequest:
        return InferenceRequest(
            pool="fast",
            session_key="session",
            token_ids=prompt.token_ids,
            cache_salt=b"salt",
            max_tokens=32,
            stop_rule=StopRule.NEWLINE,
            streaming=False,
            remaining_ms=100,
        )

    return await generate_healed(
        client,
        engine,
        engine.compose(parts, b"salt"),
        unhealed=lambda: engine.compose(parts, b"salt", heal=False),
        sequence=sequence,
        block=lambda: block,
    )


async def test_a_held_word_that_does_not_come_is_generated_again_from_the_whole_prefix() -> None:
    def script(request: InferenceRequest) -> Sequence[Step]:
        whole = text_of(request.token_ids).endswith("= ret<|fim_middle|>")
        return answer_with(list(tokenizer().encode("urn x" if whole else "raise")))(request)

    client = FakeInferenceClient(script)
    answer = await generated(client, HealingMode.TOKEN, "x = ret")
    assert answer.text == "urn x"
    assert len(client.requests) == 2
    tokens = len(tokenizer().encode("urn x")) + len(tokenizer().encode("raise"))
    assert answer.completion_tokens == tokens


async def test_a_held_word_that_comes_costs_one_sequence() -> None:
    client = FakeInferenceClient(answer_with(list(tokenizer().encode(" return x"))))
    assert (await generated(client, HealingMode.TOKEN, "x = ret")).text == "urn x"
    assert len(client.requests) == 1


async def test_nothing_is_generated_a_third_time() -> None:
    client = FakeInferenceClient(answer_with(list(tokenizer().encode("1"))))
    assert (await generated(client, HealingMode.WHITESPACE, "x = ")).text == "1"
    assert len(client.requests) == 2


async def test_the_block_rule_sees_the_text_after_what_was_held() -> None:
    client = FakeInferenceClient(answer_with(list(tokenizer().encode(" y\nz"))))
    block = BlockRule("x = ", "python")
    assert (await generated(client, HealingMode.WHITESPACE, "x = ", block)).text == "y"

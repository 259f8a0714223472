"""The tensor contract: the same cases on the fake engine and on real Triton and engine."""

import itertools
import random
import threading
from collections.abc import Callable

import numpy as np
import pytest

from replica.stop_rule import FinishReason
from tests.contract.replica.conftest import LIVE_SEQUENCES_MAX, WAITING_SEQUENCES_MAX
from tests.contract.replica.engine_client import (
    REFUSED_BY_TRITON,
    Call,
    RefusedError,
    Response,
    Target,
    tensors_of,
)

CONDITION_LIMIT_S = 30.0
CONTEXT_TOKENS = 1536 - 8
_numbers = itertools.count()


def new_salt() -> bytes:
    """A salt that no other case used, so that the cache is cold for it."""
    return f"contract case {next(_numbers):06}".encode()


def prompt_of(length: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(100, 8000) for _ in range(length)]


def run(target: Target, **values: object) -> list[Response]:
    """All responses to a request; the defaults make it a valid one that runs to its length."""
    defaults: dict[str, object] = {
        "input_ids": prompt_of(100),
        "request_output_len": 12,
        "cache_salt": new_salt(),
        "end_id": np.array([], dtype=np.int32),
    }
    return list(target.start(tensors_of(**(defaults | values))).responses())


def tokens_of(responses: list[Response]) -> list[int]:
    return [token for response in responses for token in response.output_ids]


def reason_of(responses: list[Response]) -> FinishReason:
    return FinishReason(responses[-1].values["finish_reason"])


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(CONDITION_LIMIT_S / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("the condition did not come true in time")


def is_idle(target: Target) -> bool:
    load = target.load()
    return load["live_sequences"] == 0 and load["waiting_sequences"] == 0


def outcome_of(call: Call) -> int | str:
    """How many tokens came, or what the refusal says."""
    try:
        return len(tokens_of(list(call.responses())))
    except RefusedError as refused:
        return str(refused)


def stop_words(*words: list[int]) -> np.ndarray:
    ids = [token for word in words for token in word]
    ends = list(itertools.accumulate(map(len, words)))
    return np.array([ids, ends + [-1] * (len(ids) - len(ends))], dtype=np.int32)


def test_a_line_is_answered_by_one_response_with_everything(target: Target) -> None:
    responses = run(target)
    assert len(responses) == 1
    assert responses[0].is_last
    assert len(responses[0].output_ids) == 12
    names = {"finish_reason", "cached_tokens", "queue_us", "prefill_us", "decode_us"}
    assert set(responses[0].values) == names
    assert min(responses[0].values.values()) >= 0


def test_streaming_sends_groups_of_at_most_eight_and_the_rest_with_the_last(target: Target) -> None:
    salt = new_salt()
    line = run(target, request_output_len=30, cache_salt=salt)
    streamed = run(target, request_output_len=30, cache_salt=salt, streaming=True)
    assert len(streamed) > 3
    assert all(1 <= len(response.output_ids) <= 8 for response in streamed)
    assert [response.is_last for response in streamed] == [False] * (len(streamed) - 1) + [True]
    assert all(not response.values for response in streamed[:-1])
    assert tokens_of(streamed) == tokens_of(line)


def test_the_output_length_ends_the_output(target: Target) -> None:
    for length in (1, 2, 31):
        responses = run(target, request_output_len=length)
        assert len(tokens_of(responses)) == length
        assert reason_of(responses) is FinishReason.LENGTH


def test_an_end_id_ends_the_output_and_is_not_part_of_it(target: Target) -> None:
    salt = new_salt()
    tokens = tokens_of(run(target, cache_salt=salt))
    end = tokens[5]
    responses = run(target, cache_salt=salt, end_id=[7, end])
    assert tokens_of(responses) == tokens[: tokens.index(end)]
    assert reason_of(responses) is FinishReason.END_ID


def test_the_newline_rule_ends_after_the_token_with_the_newline(target: Target) -> None:
    for seed in range(5):
        salt, prompt = new_salt(), prompt_of(60, seed)
        free = tokens_of(run(target, input_ids=prompt, cache_salt=salt, request_output_len=64))
        ruled = run(target, input_ids=prompt, cache_salt=salt, request_output_len=64, stop_rule=1)
        tokens = tokens_of(ruled)
        assert tokens == free[: len(tokens)]
        if reason_of(ruled) is FinishReason.STOP_RULE:
            break
    assert reason_of(ruled) is FinishReason.STOP_RULE
    shorter = run(
        target, input_ids=prompt, cache_salt=salt, request_output_len=64, end_id=tokens[-1:]
    )
    assert tokens_of(shorter) == tokens[: tokens.index(tokens[-1])]


def test_a_stop_word_of_several_tokens_ends_the_output_and_is_part_of_it(target: Target) -> None:
    salt = new_salt()
    tokens = tokens_of(run(target, cache_salt=salt))
    word = tokens[4:6]
    responses = run(target, cache_salt=salt, stop_words_list=stop_words([9, 9, 9], word))
    pairs = list(itertools.pairwise(tokens))
    assert tokens_of(responses) == tokens[: pairs.index(tuple(word)) + 2]
    assert reason_of(responses) is FinishReason.STOP_WORD


def test_a_request_without_a_salt_is_refused(target: Target) -> None:
    with pytest.raises(RefusedError, match="cache_salt") as refused:
        run(target, cache_salt=None)
    assert refused.value.code in {"INVALID_ARGUMENT", REFUSED_BY_TRITON}


@pytest.mark.parametrize("length", [0, 15, 65])
def test_a_salt_of_the_wrong_size_is_refused_with_limit_and_size(
    target: Target, length: int
) -> None:
    with pytest.raises(RefusedError, match=rf"16 to 64 bytes, has {length}") as refused:
        run(target, cache_salt=bytes(length))
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("tensor", "value", "words"),
    [
        ("input_ids", np.array([], dtype=np.int32), "at least 1 token, holds 0"),
        ("input_ids", np.array([5, 8192], dtype=np.int32), "from 0 to 8191, 1 of 2"),
        ("request_output_len", 0, "at least 1, is 0"),
        ("request_output_len", CONTEXT_TOKENS, "1528 tokens .* have 100 \\+ 1528"),
        ("stop_rule", 2, "one of 0 .none., 1 .newline., is 2"),
        ("end_id", [-1], "from 0 to 8191, 1 of 1"),
        ("stop_words_list", np.array([[5, 6], [9, -1]], dtype=np.int32), "last offset may be 2"),
        ("stop_words_list", np.array([[5, 6], [2, 1]], dtype=np.int32), "rising offsets"),
    ],
)
def test_a_tensor_that_breaks_the_contract_is_refused(
    target: Target, tensor: str, value: object, words: str
) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        run(target, **{tensor: value})
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_tensor_of_the_wrong_type_is_refused(target: Target) -> None:
    with pytest.raises(RefusedError, match="input_ids") as refused:
        run(target, input_ids=np.array([1.0, 2.0], dtype=np.float32))
    assert refused.value.code in {"INVALID_ARGUMENT", REFUSED_BY_TRITON}


def test_a_prompt_as_long_as_the_context_allows_is_served(target: Target) -> None:
    prompt = prompt_of(CONTEXT_TOKENS - 3)
    assert len(tokens_of(run(target, input_ids=prompt, request_output_len=3))) == 3


def test_a_request_that_is_late_when_it_comes_computes_nothing(target: Target) -> None:
    before = target.load()
    for deadline_ms in (0, -5):
        responses = run(target, deadline_ms=deadline_ms)
        assert tokens_of(responses) == []
        assert reason_of(responses) is FinishReason.DEADLINE
        assert responses[-1].values["prefill_us"] == responses[-1].values["decode_us"] == 0
    after = target.load()
    for counter in ("prompt_tokens_computed_total", "tokens_decoded_total"):
        assert after[counter] == before[counter]


def test_the_deadline_ends_decoding_with_the_tokens_so_far(target: Target) -> None:
    responses = run(target, request_output_len=1400, deadline_ms=150)
    assert reason_of(responses) is FinishReason.DEADLINE
    assert 0 < len(tokens_of(responses)) < 1400


def test_a_deadline_far_away_changes_nothing(target: Target) -> None:
    assert reason_of(run(target, deadline_ms=60_000)) is FinishReason.LENGTH


def test_a_prompt_sent_again_is_taken_from_the_cache(target: Target) -> None:
    salt, prompt = new_salt(), prompt_of(640)
    cold = run(target, input_ids=prompt, cache_salt=salt)
    warm = run(target, input_ids=[*prompt, 500, 501], cache_salt=salt)
    assert cold[-1].values["cached_tokens"] == 0
    # All but the last block, which was filled on by what was generated.
    assert 640 - 32 <= warm[-1].values["cached_tokens"] <= 640


def test_an_edited_prompt_is_cached_up_to_the_block_of_the_edit(target: Target) -> None:
    salt, prompt = new_salt(), prompt_of(640)
    run(target, input_ids=prompt, cache_salt=salt)
    edited = run(target, input_ids=[*prompt[:320], 7, *prompt[321:]], cache_salt=salt)
    assert 320 - 32 <= edited[-1].values["cached_tokens"] <= 320


def test_another_salt_reuses_nothing(target: Target) -> None:
    prompt = prompt_of(300)
    run(target, input_ids=prompt)
    assert run(target, input_ids=prompt)[-1].values["cached_tokens"] == 0


def test_the_same_request_gives_the_same_tokens_cold_and_warm(target: Target) -> None:
    salt, prompt = new_salt(), prompt_of(200)
    first = tokens_of(run(target, input_ids=prompt, cache_salt=salt, request_output_len=24))
    second = tokens_of(run(target, input_ids=prompt, cache_salt=salt, request_output_len=24))
    assert first == second


def test_requests_together_get_the_tokens_that_they_get_alone(target: Target) -> None:
    salts = [new_salt() for _ in range(LIVE_SEQUENCES_MAX)]
    prompts = [prompt_of(50 + 30 * i, seed=i) for i in range(LIVE_SEQUENCES_MAX)]
    requests = [
        {"input_ids": prompt, "cache_salt": salt, "request_output_len": 20, "end_id": [7]}
        for prompt, salt in zip(prompts, salts, strict=True)
    ]
    together = [target.start(tensors_of(**request)) for request in requests]
    answers = [tokens_of(list(call.responses())) for call in together]
    alone = [
        tokens_of(run(target, **{**request, "cache_salt": new_salt()})) for request in requests
    ]
    assert len(answers) == len(alone)
    again = [tokens_of(run(target, **request)) for request in requests]
    assert answers == again


def test_a_cancel_while_decoding_costs_at_most_one_step(target: Target) -> None:
    wait_until(lambda: is_idle(target))
    before = target.load()
    call = target.start(
        tensors_of(
            input_ids=prompt_of(50),
            request_output_len=1400,
            cache_salt=new_salt(),
            end_id=np.array([], dtype=np.int32),
            streaming=True,
        )
    )
    stream = call.responses()
    seen = len(next(stream).output_ids) + len(next(stream).output_ids)
    call.cancel()
    wait_until(lambda: is_idle(target))
    after = target.load()
    assert after["cancelled_total"] == before["cancelled_total"] + 1
    late = "tokens_decoded_after_cancel_total"
    assert after[late] - before[late] <= 1
    decoded = after["tokens_decoded_total"] - before["tokens_decoded_total"]
    assert seen <= decoded < 1400


def test_a_cancelled_prompt_stays_cached(target: Target) -> None:
    salt, prompt = new_salt(), prompt_of(320)
    call = target.start(
        tensors_of(
            input_ids=prompt,
            request_output_len=1000,
            cache_salt=salt,
            end_id=np.array([], dtype=np.int32),
            streaming=True,
        )
    )
    next(call.responses())
    call.cancel()
    wait_until(lambda: is_idle(target))
    assert run(target, input_ids=prompt, cache_salt=salt)[-1].values["cached_tokens"] >= 288


def test_a_request_cancelled_while_it_waits_is_never_computed(target: Target) -> None:
    wait_until(lambda: is_idle(target))
    computed = target.load()["prompt_tokens_computed_total"]
    occupying = [
        target.start(
            tensors_of(
                input_ids=prompt_of(8),
                request_output_len=300,
                cache_salt=new_salt(),
                end_id=np.array([], dtype=np.int32),
            )
        )
        for _ in range(LIVE_SEQUENCES_MAX)
    ]
    wait_until(lambda: target.load()["live_sequences"] == LIVE_SEQUENCES_MAX)
    before = target.load()
    waiting = target.start(
        tensors_of(input_ids=prompt_of(400), request_output_len=5, cache_salt=new_salt())
    )
    wait_until(lambda: target.load()["waiting_sequences"] == 1)
    waiting.cancel()
    wait_until(lambda: target.load()["cancelled_total"] == before["cancelled_total"] + 1)
    for call in occupying:
        assert len(tokens_of(list(call.responses()))) == 300
    assert target.load()["prompt_tokens_computed_total"] - computed < 400


def test_more_waiting_requests_than_the_limit_are_refused(target: Target) -> None:
    wait_until(lambda: is_idle(target))
    held = LIVE_SEQUENCES_MAX + WAITING_SEQUENCES_MAX
    calls = []
    for count in range(held + 4):
        calls.append(
            target.start(
                tensors_of(
                    input_ids=prompt_of(8),
                    request_output_len=200,
                    cache_salt=new_salt(),
                    end_id=np.array([], dtype=np.int32),
                )
            )
        )
        if count < LIVE_SEQUENCES_MAX:
            wait_until(lambda least=count + 1: target.load()["live_sequences"] >= least)
    outcomes = [outcome_of(call) for call in calls]
    assert outcomes[:LIVE_SEQUENCES_MAX] == [200] * LIVE_SEQUENCES_MAX
    refusals = [outcome for outcome in outcomes if outcome != 200]
    assert 1 <= len(refusals) <= 4
    words = f"RESOURCE_EXHAUSTED: {WAITING_SEQUENCES_MAX} sequences may wait"
    assert all(str(each).startswith(words) for each in refusals)


def test_the_load_report_has_every_field(target: Target) -> None:
    run(target)
    load = target.load()
    fields = {
        "live_sequences",
        "waiting_sequences",
        "step_us",
        "prefill_tokens_per_s",
        "warm_sessions",
        "cache_blocks_total",
        "cache_blocks_used",
        "cache_evictions_total",
        "prompt_tokens_computed_total",
        "prompt_tokens_cached_total",
        "tokens_decoded_total",
        "tokens_decoded_after_cancel_total",
        "cancelled_total",
        "engine_digest",
        "stuck",
    }
    assert fields <= set(load)
    assert load["engine_digest"].startswith("sha256:")
    assert load["step_us"] > 0
    assert load["warm_sessions"] > 0
    assert load["stuck"] is False

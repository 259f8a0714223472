import json

from control_plane.empty_success import mapper

# POST /v1/inline-completions, in the order of the HTTP contract.
FIELDS = [
    *("id", "suggestion", "outcome", "reason", "mode", "document_version", "matches"),
    *("model", "recipe", "arm", "policy_version", "usage", "timings_ms"),
]


def body() -> str:
    return str(mapper()["body_format_override"]["text_format_source"]["inline_string"])


def test_the_body_has_every_field_of_the_answer_and_nothing_to_show() -> None:
    answer = json.loads(body())
    assert list(answer) == FIELDS
    assert (answer["suggestion"], answer["outcome"]) == ("", "failed")
    assert set(answer["usage"]) == {"prompt_tokens", "cached_tokens", "completion_tokens"}


def test_the_body_is_compact() -> None:
    assert ": " not in body()
    assert ", " not in body()


def test_the_only_thing_taken_from_the_request_is_the_id_that_envoy_made() -> None:
    assert body().count("%") == 2
    assert "%REQ(X-REQUEST-ID)%" in body()

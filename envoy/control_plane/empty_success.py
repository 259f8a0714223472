"""The empty success: what a client hears when Envoy finds nobody to complete its line.

Owns the mapping of Envoy's own 5xx on completion routes. The rule: an editor shows errors, and a
missing suggestion is not worth one; every other route keeps its 5xx, so that probes stay honest.
"""

import json
from typing import Final

from .resources import Json

COMPLETION_PATH: Final = "/v1/inline-completions"

# The answer of POST /v1/inline-completions. Envoy knows neither the document's version nor the
# policy: null and 0 say so.
_ANSWER: Final[Json] = {
    "id": "%REQ(X-REQUEST-ID)%",
    "suggestion": "",
    "outcome": "failed",
    "reason": None,
    "mode": "line",
    "document_version": None,
    "matches": [],
    "model": "",
    "recipe": "",
    "arm": "",
    "policy_version": 0,
    "usage": {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0},
    "timings_ms": {
        "total": 0,
        "admission": 0,
        "prompt": 0,
        "queue": 0,
        "prefill": 0,
        "decode": 0,
        "postprocess": 0,
    },
}

_HEADERS: Final = {"x-policy-version": "0", "x-debounce-hint-ms": "0"}


def mapper() -> Json:
    """A `local_reply_config` mapper; it sees only answers that Envoy itself made."""
    return {
        "filter": {"and_filter": {"filters": [_is_server_error(), *_is_completion()]}},
        "status_code": 200,
        # As text, not as Envoy's JSON format: that one sorts the keys.
        "body_format_override": {
            "text_format_source": {"inline_string": json.dumps(_ANSWER, separators=(",", ":"))},
            "content_type": "application/json",
        },
        "headers_to_add": [
            {
                "header": {"key": name, "value": value},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
            for name, value in _HEADERS.items()
        ],
    }


def _is_server_error() -> Json:
    at_least_500 = {
        "op": "GE",
        "value": {"default_value": 500, "runtime_key": "warmline.empty_success.status_min"},
    }
    return {"status_code_filter": {"comparison": at_least_500}}


def _is_completion() -> list[Json]:
    """The method, and the path with or without a query."""
    path = {"safe_regex": {"regex": rf"{COMPLETION_PATH}(\?.*)?"}}
    return [
        {"header_filter": {"header": {"name": ":method", "string_match": {"exact": "POST"}}}},
        {"header_filter": {"header": {"name": ":path", "string_match": path}}},
    ]

"""When a sequence ends: end ids, the newline rule, stop words and the output length.

Rule: this is the only place that decides it, token by token; the engine knows the length alone.
"""

from dataclasses import dataclass, field
from enum import IntEnum


class FinishReason(IntEnum):
    """Values of the `finish_reason` tensor."""

    END_ID = 1
    STOP_RULE = 2
    STOP_WORD = 3
    LENGTH = 4
    CANCELLED = 5
    DEADLINE = 6


class StopRule(IntEnum):
    """Values of the `stop_rule` tensor."""

    NONE = 0
    NEWLINE = 1


@dataclass(frozen=True, slots=True)
class StopConditions:
    """Everything that ends one sequence.

    Attributes:
        output_tokens_max: the length, at least 1.
        end_ids: end the output and are not part of it.
        newline_ids: end the output and are part of it; empty without the newline rule.
        stop_words: token sequences that end the output and are part of it, as in TensorRT-LLM,
            because a streamed group may hold a word's first token before its last is known.
    """

    output_tokens_max: int
    end_ids: frozenset[int] = frozenset()
    newline_ids: frozenset[int] = frozenset()
    stop_words: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class StopMatcher:
    """Follows one sequence's tokens and says where it ends."""

    conditions: StopConditions
    _tail: list[int] = field(default_factory=list)
    _count: int = 0

    def feed(self, token: int) -> tuple[bool, FinishReason | None]:
        """Take the next token: (whether it belongs to the output, why the output ends here).

        Where several reasons meet, an end id wins over the newline rule, then stop words, then
        the length.
        """
        if token in self.conditions.end_ids:
            return False, FinishReason.END_ID
        self._count += 1
        if token in self.conditions.newline_ids:
            return True, FinishReason.STOP_RULE
        if self._completes_a_word(token):
            return True, FinishReason.STOP_WORD
        if self._count >= self.conditions.output_tokens_max:
            return True, FinishReason.LENGTH
        return True, None

    def _completes_a_word(self, token: int) -> bool:
        words = self.conditions.stop_words
        if not words:
            return False
        self._tail.append(token)
        del self._tail[: -max(map(len, words))]
        return any(tuple(self._tail[-len(word) :]) == word for word in words)

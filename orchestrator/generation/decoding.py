"""Token ids to text while they arrive. Pure; its output does not depend on how groups were cut.

A character whose bytes have not all arrived is held back, never shown as U+FFFD. Bytes that can
never become a character end the completion: what follows them cannot be trusted.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Collection, Iterable, Sequence

_utf8_decoder = getincrementaldecoder("utf-8")


class TokenDecoder:
    """Decodes one completion. `ended` turns true at a control token or undecodable bytes."""

    def __init__(self, token_bytes: Sequence[bytes], control_ids: Collection[int]) -> None:
        self._token_bytes = token_bytes
        self._control_ids = control_ids
        self._decoder = _utf8_decoder("strict")
        self.ended = False

    def feed(self, token_ids: Iterable[int]) -> str:
        """The characters that these tokens complete; empty once the completion has ended."""
        text = []
        for token_id in token_ids:
            if self.ended:
                break
            if token_id in self._control_ids or not 0 <= token_id < len(self._token_bytes):
                self.ended = True
            else:
                text.append(self._decode(self._token_bytes[token_id]))
        return "".join(text)

    def _decode(self, content: bytes) -> str:
        held, _ = self._decoder.getstate()
        try:
            return self._decoder.decode(content)
        except UnicodeDecodeError as error:
            self.ended = True
            return (held + content)[: error.start].decode()

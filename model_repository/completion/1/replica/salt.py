"""From salt bytes to the leading tokens that keep two sessions' caches apart.

openvino-genai finds cached blocks by a hash chain over the prompt's tokens, so differing first
tokens mean that nothing after them can match. The tokens depend on the salt's bytes alone.
"""

import hashlib
from collections.abc import Sequence


def ordinary_token_ids(vocabulary_size: int, control_ids: frozenset[int]) -> tuple[int, ...]:
    """Every id that stands for text: no control token may be smuggled in as a salt."""
    return tuple(token for token in range(vocabulary_size) if token not in control_ids)


def salt_token_ids(salt: bytes, count: int, ordinary_ids: Sequence[int]) -> tuple[int, ...]:
    """`count` ordinary token ids for `salt`.

    Each id is 64 bits of a BLAKE2b stream reduced modulo the vocabulary, whose bias is below
    2**-50 for any vocabulary under 2**14 and below 2**-46 under 2**18. Eight ids of an 8,192-entry
    vocabulary carry 104 bits: a chance match among 2**32 salts has probability 2**-41.
    """
    ids: list[int] = []
    for block in range(-(-count // 8)):
        digest = hashlib.blake2b(salt, person=b"salt" + block.to_bytes(4, "little")).digest()
        words = (int.from_bytes(digest[at : at + 8], "little") for at in range(0, 64, 8))
        ids.extend(ordinary_ids[word % len(ordinary_ids)] for word in words)
    return tuple(ids[:count])

"""The byte-level BPE alphabet: which bytes each vocabulary entry stands for.

Byte-level BPE (GPT-2, Radford et al. 2019; used by Llama 3, Qwen, StarCoder, DeepSeek-Coder)
spells bytes as printable characters: printable Latin-1 characters stand for themselves, the
remaining bytes, in order, for the characters from U+0100 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def byte_of_character() -> dict[str, int]:
    """Each of the 256 alphabet characters with its byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + number): byte for number, byte in enumerate(rest)}


def bytes_of_vocabulary(
    vocabulary: Mapping[str, int], literal_ids: Iterable[int]
) -> tuple[bytes, ...]:
    """Bytes of each id, indexed by id; ids without an entry get no bytes.

    `literal_ids` are entries that are spelled in plain text (added tokens). Raises ValueError
    where an entry uses a character outside the alphabet.
    """
    alphabet, literal = byte_of_character(), set(literal_ids)
    table = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for spelling, token_id in vocabulary.items():
        if token_id in literal:
            table[token_id] = spelling.encode()
            continue
        try:
            table[token_id] = bytes(alphabet[character] for character in spelling)
        except KeyError as error:
            raise ValueError(f"token {token_id} is not spelled in the byte alphabet") from error
    return tuple(table)

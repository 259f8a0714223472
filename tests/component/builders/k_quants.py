"""Packs float matrices as GGML Q4_K and Q6_K blocks, which the gguf library can only unpack.

The packing is the plain one (per-group range, no search for better scales): the tests need valid
blocks with realistic values, and take what the library unpacks from them as the truth.
"""

import numpy as np
from gguf import GGMLQuantizationType

BLOCK = 256


def pack(matrix: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """`matrix` is float [rows, columns], columns a multiple of 256; uint8 [rows, bytes] back."""
    blocks = matrix.astype(np.float32).reshape(-1, BLOCK)
    packer = {GGMLQuantizationType.Q4_K: _pack_q4_k, GGMLQuantizationType.Q6_K: _pack_q6_k}[kind]
    return packer(blocks).reshape(matrix.shape[0], -1)


def _divide(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.divide(values, by, out=np.zeros_like(values), where=by != 0)


def _half_bytes(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).reshape(-1, 1).view(np.uint8)


def _pack_q4_k(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 8, 32)
    low = np.minimum(groups.min(axis=2), 0)
    step = (groups.max(axis=2) - low) / 15
    scale = (step.max(axis=1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    minimum = (-low.min(axis=1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    scales = np.rint(_divide(step, scale + 0 * step)).clip(0, 63)
    minima = np.rint(_divide(-low, minimum + 0 * low)).clip(0, 63)
    steps = (scale * scales)[..., None] + 0 * groups
    quants = np.rint(_divide(groups + (minimum * minima)[..., None], steps)).clip(0, 15)
    pairs = quants.astype(np.uint8).reshape(-1, 4, 2, 32)
    nibbles = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    s, m = scales.astype(np.uint8), minima.astype(np.uint8)
    packed = np.concatenate(
        [
            s[:, :4] | (s[:, 4:] >> 4) << 6,
            m[:, :4] | (m[:, 4:] >> 4) << 6,
            (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4,
        ],
        axis=1,
    )
    return np.concatenate([_half_bytes(scale), _half_bytes(minimum), packed, nibbles], axis=1)


def _pack_q6_k(blocks: np.ndarray) -> np.ndarray:
    groups = blocks.reshape(-1, 16, 16)
    step = np.abs(groups).max(axis=2) / 31
    scale = (step.max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    scales = np.rint(_divide(step, scale + 0 * step)).clip(0, 127)
    steps = (scale * scales)[..., None] + 0 * groups
    quants = (np.rint(_divide(groups, steps)).clip(-32, 31) + 32).astype(np.uint8)
    rows = quants.reshape(-1, 2, 4, 32)  # two halves of four runs of 32
    low, high = rows & 15, rows >> 4
    ql = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], 2)
    qh = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    flat = [ql.reshape(-1, 128), qh.reshape(-1, 64), scales.astype(np.int8).view(np.uint8)]
    return np.concatenate([*flat, _half_bytes(scale)], axis=1)

"""The tables of positions that a model's files do not have: they follow from its sizes. Imports no torch."""

import math

import numpy as np

from embedder.model.tensors import Array


def relative_position_bias(table: Array, length: int) -> Array:
    """Expand MPNet's bias table (buckets, heads) to (heads, length, length), as its reference implementation does."""
    half = table.shape[0] // 2
    exact = half // 2
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]  # key minus query
    n = np.arange(length, dtype=np.float32)
    far = exact + (np.log(np.maximum(n, 1) / exact) / math.log(128 / exact) * (half - exact)).astype(np.int64)
    buckets = np.where(n < exact, np.arange(length), np.minimum(far, half - 1))
    return np.ascontiguousarray(table[(distance > 0) * half + buckets[abs(distance)]].transpose(2, 0, 1))


def angle_table(theta: float, length: int, width: int) -> Array:
    """Return the cosines, then the sines, of the angles of rotary positions; float32 (length, width).

    Angles are rounded to float32, as those that models are trained with; their cosines and sines once, at the end.
    """
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    frequencies = 1 / (theta ** exponents.astype(np.float64)).astype(np.float32)
    angles = (np.arange(length, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)

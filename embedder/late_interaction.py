"""Late interaction: the comparison of texts token by token, with the tokens of documents stored as signs.

Passages are scored by MaxSim, as in ColBERT (Khattab and Zaharia 2020): the mean, over the tokens of a query, of the
similarity to the best matching token of a passage. Tokens are states of the last layer of an embedding model that was
not trained for this. Tokens of passages are stored as signs, one bit for each dimension, as in binary quantisation.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Signs = npt.NDArray[np.uint8]


class QueryTokens(NamedTuple):
    """A query: one vector, and one vector for each of its tokens."""

    vector: Floats  # (dim,)
    tokens: Floats  # (tokens, width), unit length; may be empty
    broken: tuple[int, int]


class DocumentTokens(NamedTuple):
    """Texts: a vector for each, and the signs of their tokens."""

    vectors: Floats  # (n, dim)
    signs: Signs  # (tokens, width / 8), the first dimension in the lowest bit of the first byte
    counts: npt.NDArray[np.int32]  # tokens of each text, (n,)

    @classmethod
    def without(cls, vectors: Floats) -> "DocumentTokens":
        """Return vectors as the result of an embedder that gives no tokens."""
        return cls(vectors, np.empty((0, 0), dtype=np.uint8), np.zeros(len(vectors), dtype=np.int32))

    @classmethod
    def concatenate(cls, blocks: Sequence["DocumentTokens"]) -> "DocumentTokens":
        """Return the texts of all blocks in order. There must be at least one block."""
        return cls(*(np.concatenate(values) for values in zip(*blocks, strict=True)))

    def of(self, indices: npt.NDArray[np.integer]) -> "DocumentTokens":
        """Return some of the texts, in the order of `indices`."""
        starts, counts = np.cumsum(self.counts) - self.counts, self.counts[indices]
        return DocumentTokens(self.vectors[indices], self.signs[spread(starts[indices], counts)], counts)


def spread(starts: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return, in one array, the ranges that begin at `starts` and have `counts` numbers each."""
    ends = np.cumsum(counts)
    places: npt.NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - (ends - counts), counts)
    return places


def unit(states: Floats) -> Floats:
    """Normalise the states of tokens, float32 (tokens, width)."""
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    return np.asarray(states / np.maximum(norms, np.finfo(np.float32).tiny), dtype=np.float32)


def distinct_places(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Return the position of the first occurrence of each distinct token in a passage.

    This drops a quarter to half of the tokens, and changes the mean nDCG@10 of four collections by less than 0.001.
    """
    return np.sort(np.unique(ids, return_index=True)[1])


def to_signs(states: Floats) -> Signs:
    """Return the signs of states, float32 (tokens, width), as uint8 (tokens, width / 8). A bit is 1 for positive."""
    return np.packbits(states > 0, axis=1, bitorder="little")


def maxsim(query: Floats, signs: Signs, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]) -> Floats:
    """Score passages: the mean, over a query's tokens, of the highest cosine with a token of the passage.

    A token stored as signs is the unit vector with these signs. The cosine of a vector and its signs is near 0.8, so
    scores stay below 1. `NativeEngine` has a kernel for this.

    Args:
        query: tokens of unit length, float32 (tokens, width).
        signs: tokens of many passages, by `to_signs`.
        starts: the first token of each passage in `signs`, int64 (n,).
        counts: number of tokens of each passage, int32 (n,).

    Returns:
        float32 (n,); 0 if the query or the passage has no tokens.

    Raises:
        ValueError: `signs` has another width than the query, or too few tokens.
    """
    check_passages(query, signs, starts, counts)
    scores = np.zeros(len(counts), dtype=np.float32)
    for i in np.flatnonzero(counts if len(query) else counts[:0]).tolist():
        bits = np.unpackbits(signs[starts[i] : starts[i] + counts[i]], axis=1, bitorder="little")
        scores[i] = (2.0 * (bits.astype(np.float32) @ query.T) - query.sum(1)).max(0).mean()
    return scores / np.float32(math.sqrt(query.shape[1]))


def check_passages(query: Floats, signs: Signs, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]) -> None:
    """Raise ValueError unless passages are within `signs` and as wide as the query. Kernels do not check this."""
    if signs.ndim != 2 or signs.shape[1] * 8 != query.shape[1] or not signs.flags.c_contiguous:
        raise ValueError(f"the tokens of passages have shape {signs.shape}, not (n, {query.shape[1]} / 8)")
    for array, kind in ((starts, np.int64), (counts, np.int32)):
        if array.dtype != kind or array.shape != (len(counts),) or not array.flags.c_contiguous:
            raise ValueError("starts must be int64 and counts int32, contiguous and of one length")
    if len(counts) and (starts.min() < 0 or counts.min() < 0 or int((starts + counts).max()) > len(signs)):
        raise ValueError(f"a passage has tokens outside the {len(signs):,} of `signs`")

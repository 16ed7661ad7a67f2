"""Which texts go through the model together."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

TOKEN_BUDGET = 4096  # padded tokens a batch; larger gains nothing once the matrices fill the cores
_LONGEST_BATCH = 256  # texts a batch, so that very short texts do not make one enormous batch


def plan(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> list[list[int]]:
    """Group indices of texts by similar length, longest first, so that little is padded.

    Each group's padded size (texts × longest) is within `budget`, unless it is a single text.
    Longest first shows the largest memory use at once and the time left honestly.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches: list[list[int]] = []
    for i in order:
        if batches:
            last = batches[-1]
            if len(last) < _LONGEST_BATCH and (len(last) + 1) * lengths[last[0]] <= budget:
                last.append(i)
                continue
        batches.append([i])
    return batches


def pad(rows: Sequence[list[int]], padding: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return ids and mask, int64 (rows, longest row, at least 2), padded on the right.

    Two, because a package's sequence length cannot be 1 where it is to be dynamic.
    """
    longest = max(2, *map(len, rows))
    ids = np.full((len(rows), longest), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask

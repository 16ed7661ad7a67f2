"""Groups and pads texts that go through the model together."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

TOKEN_BUDGET = 4096  # padded tokens a batch; larger gains nothing once the matrices fill the cores
_LONGEST_BATCH = 256  # texts a batch, so that very short texts do not make one enormous batch


def plan(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> list[list[int]]:
    """Return indices of texts in groups of similar length, longest first, so that little is padded.

    `lengths` and `budget` are in tokens. Each group's padded size (texts × longest) is within `budget`, unless it is a
    single text. Longest first reaches the largest memory use at once, and never underestimates the time left.
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
    """Return ids and mask, int64 (rows, longest row), padded on the right; the mask is 1 for tokens.

    The length is at least 2, because a package with dynamic sequence length cannot take 1.
    """
    longest = max(2, *map(len, rows))
    ids = np.full((len(rows), longest), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask

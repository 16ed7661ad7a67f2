"""Which texts go through the model together."""

from collections.abc import Sequence

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

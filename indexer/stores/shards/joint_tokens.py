"""The tokens of several generations as one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs
from indexer.generation.tokens import TokenReader
from indexer.stores.shards.numbering import Numbering


class JointTokens:
    """A `TokenSource` that copies the tokens it is asked for out of their parts."""

    def __init__(self, rows: Numbering, readers: Sequence[TokenReader]) -> None:
        """Take how rows are numbered, and the tokens of each part."""
        self._rows = rows
        self._readers = readers

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return signs of tokens and, of each of these passages, where its own begin and how many they are."""
        starts, counts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int32)
        gathered, first = [self._readers[0].signs[:0]], 0
        for place, chosen, own in self._rows.split(rows):
            signs, counts[chosen] = self._readers[place].read(own)
            starts[chosen] = first + np.cumsum(counts[chosen]) - counts[chosen]
            gathered.append(signs)
            first += len(signs)
        return np.concatenate(gathered), starts, counts

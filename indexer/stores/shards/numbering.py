"""Numbers that count on from one part to the next: of rows, or of documents."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt

Numbers = npt.NDArray[np.int64]


class Numbering:
    """What each number of the whole is in its part. Never changed once made."""

    def __init__(self, totals: Sequence[int]) -> None:
        """Take how many numbers each part has."""
        self.totals = tuple(totals)
        ends = np.cumsum(totals)
        self.firsts: Numbers = ends - np.asarray(totals, np.int64)
        """The number in the whole of each part's 0, int64 (parts,)."""
        self._ends = ends

    def split(self, numbers: Numbers) -> Iterator[tuple[int, npt.NDArray[np.bool_], Numbers]]:
        """Yield each part that has some of these numbers: its place, which, bool (n,), and what they are there.

        Raises IndexCorrupt if one is in no part.
        """
        places = np.searchsorted(self._ends, numbers, side="right")
        if len(numbers) and (numbers.min() < 0 or places.max() >= len(self.totals)):
            raise IndexCorrupt(f"the parts of the index have no chunk {numbers.max()}; build them again")
        for place in np.unique(places).tolist():
            chosen = places == place
            yield place, chosen, numbers[chosen] - self.firsts[place]

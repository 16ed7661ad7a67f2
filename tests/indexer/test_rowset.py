import faiss
import numpy as np
import pytest

from indexer.generation.rows import RowSet


def test_rows_of_ranges() -> None:
    rows = RowSet.from_ranges(20, [(15, 20), (0, 3), (2, 5), (5, 6), (9, 9), (9, 10)])
    expected = [0, 1, 2, 3, 4, 5, 9, 15, 16, 17, 18, 19]
    assert rows.rows().tolist() == expected
    assert rows.rows().dtype == np.int64
    assert (rows.count, rows.total) == (12, 20)
    assert np.flatnonzero(rows.contains(np.arange(20))).tolist() == expected
    assert rows.mask.dtype == np.uint8
    assert len(rows.mask) == 3
    assert [row for row in range(24) if rows.mask[row >> 3] >> (row & 7) & 1] == expected


@pytest.mark.parametrize("wrong", [(-1, 2), (0, 5), (3, 2)])
def test_a_range_must_be_one(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not within 0 and 4"):
        RowSet.from_ranges(4, [wrong])


def test_faiss_reads_the_mask() -> None:
    assert RowSet.from_ranges(0, []).count == 0
    rows = RowSet.from_ranges(20, [(3, 5), (17, 18)])
    selector = faiss.IDSelectorBitmap(rows.mask)
    assert [row for row in range(20) if selector.is_member(row)] == [3, 4, 17]

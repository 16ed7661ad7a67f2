"""Grids of tables: merged cells spread, and the rows that name the columns."""

import pytest

from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.text import reader_notes

GRIDS = {
    "rows": ([[("Zone", 2, 1), "Single"], ["Day"], ["Airport", "Week"]], ["Zone|Single", "Zone|Day", "Airport|Week"]),
    "columns": ([["a", "b", "c"], [("Total", 1, 2), "3"]], ["a|b|c", "Total|Total|3"]),
    "both": (
        [["", ("Sales", 1, 2)], ["", "Q1", "Q2"], [("x", 2, 2), "1"], ["2"]],
        ["|Sales|Sales", "|Q1|Q2", "x|x|1", "x|x|2"],
    ),
    "last cells": ([["a", ("b", 2, 1), ("c", 2, 3)], ["d"], ["e", "f", "g"]], ["a|b|c", "d|b|c", "e|f|g"]),
    "a corner": ([["a", "b", "c"], ["d", ("e", 2, 2)], ["f"]], ["a|b|c", "d|e|e", "f|e|e"]),
    "a row alone": ([[("Fares", 1, 50)], ["a", "b"]], ["Fares", "a|b"]),
    "steps": ([["a", ("b", 3, 1)], [("c", 2, 1)], []], ["a|b", "c|b", "c|b"]),
    "gap": ([["a", "b", ("c", 2, 1)], ["d"]], ["a|b|c", "d||c"]),
}


@pytest.mark.parametrize(("rows", "expected"), GRIDS.values(), ids=GRIDS)
def test_merged_cells_stand_at_every_place_that_they_span(rows: list[list[object]], expected: list[str]) -> None:
    cells = [[Cell(cell) if isinstance(cell, str) else Cell(*cell) for cell in row] for row in rows]  # type: ignore[misc]
    assert ["|".join(row) for row in spread_cells(cells)] == expected


def test_a_long_text_is_not_repeated() -> None:
    assert spread_cells([[Cell("long " * 100, 2), Cell("a")], [Cell("b")]])[1] == ["", "b"]


@pytest.mark.parametrize(
    "rows",
    [
        [[Cell("a", 65_534, 1_000), Cell("b")]] + [[Cell("c")]] * 3_000,
        [[Cell("a", 1, 1_000), Cell("b")]] * 3_000,
        [[Cell("a", 65_534)] * 3_000, *[[Cell("b")]] * 3_000],
        [[*[Cell("a")] * 3_000, Cell("b", 65_534)], *[[Cell("c")]] * 3_000],
        [[Cell("a")] * 3_000, *[[Cell("b"), Cell("c", 1, 3_000)]] * 3_000],
    ],
    ids=("both", "columns", "rows", "padding", "last"),
)
def test_hostile_spans_are_bounded(rows: list[list[Cell]]) -> None:
    reader_notes.take()
    assert sum(map(len, spread_cells(rows))) < sum(map(len, rows)) + 60_000
    assert len(reader_notes.take()) == 1


HEADS = {  # rows, where names begin, and these
    "words": ("Name,Age\nAda,36\nAlan,41", 0, "Name,Age"),
    "years": ("Region,2023,2024\nNorth,510,640\nSouth,120,95", 0, "Region,2023,2024"),
    "months": ("Item,2024-01,2024-02,2024-03\nWick,1,2,3\nOil,3,1,2", 0, "Item,2024-01,2024-02,2024-03"),
    "a scale": ("Class,1,2,3,4\na,7,3,9,1\nb,2,2,8,0", 0, "Class,1,2,3,4"),
    "numbers above words": ("Room,101,102\nMonday,music,free\nTuesday,free,chess", 0, "Room,101,102"),
    "years that are data": ("Bach,1685,1750\nMozart,1756,1791\nHaydn,1732,1809", 0, None),
    "numbers that are data": ("North,510,640\nSouth,120,95", 0, None),
    "a title": ("Fares,,\nZone,Ticket,Price\nHarbour,Day,6.30\nPort,Day,7.10", 1, "Zone,Ticket,Price"),
    "a title over all": ("Fares,Fares,Fares\nZone,Ticket,Price\nHarbour,Day,6.30", 1, "Zone,Ticket,Price"),
    "remarks":
        ("Report,May,,\nBy,Ada,,\n,,,\nZone,Ticket,Price,Seats\nPort,Day,6,1\nQuay,Day,8,2", 3,
         "Zone,Ticket,Price,Seats"),
    "a title and no head": ("Fares,,\n1,2,3\n4,5,6", 1, None),
    "two rows, merged":
        ("Region,Sales,Sales\nRegion,2023,2024\nNorth,510,640\nSouth,120,95", 0,
         "Region,Sales 2023,Sales 2024"),
    "three rows":
        ("Area,Sales,Sales,Sales,Sales\nArea,2023,2023,2024,2024\nArea,min,max,min,max\nN,5,6,5,7\nS,4,4,3,3", 0,
         "Area,Sales 2023 min,Sales 2023 max,Sales 2024 min,Sales 2024 max"),
    "two rows, empty cells":
        ("Region,Sales,\n,2023,2024\nNorth,510,640\nSouth,120,95", 0, "Region,Sales 2023,Sales 2024"),
    "units": ("Station,Height,Rain\n,m,mm\nPier,4,12\nHill,310,30", 0, "Station,Height m,Rain mm"),
    "a name twice": ("Day,Amount,Amount\n2024-01-01,5,6\n2024-01-02,7,8", 0, "Day,Amount,Amount"),
    "the same words as data": ("on,on\noff,on\non,off", 0, None),
    "an empty row": ("Day,Amount,Note\n\n1,2,a\n3,4,b", 0, "Day,Amount,Note"),
    "no name of the first column": (",A,B\nx,yes,no\ny,no,no", 0, ",A,B"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "begin", "names"), HEADS.values(), ids=HEADS)
def test_rows_that_name_the_columns_are_found(table: str, begin: int, names: str | None) -> None:
    rows = [line.split(",") if line else [] for line in table.split("\n")]
    found = find_head(rows)
    assert found[0] == begin
    assert ",".join(column_names(rows[slice(*found)])) == (names or "")

"""Tables of pages: merged cells, and rows that name the columns."""

import pytest

from indexer.read.html.main_content import extract

TABLES = {
    "rows of a group": (
        "<tr><th>Zone<th>Ticket<th>Price<tbody><tr><th scope=row rowspan=2>Harbour<td>Day<td>6<tr><td>Week<td>19",
        ["Zone | Ticket | Price", "Harbour | Day | 6", "Harbour | Week | 19"],
    ),
    "columns": (
        "<tr><td>a<td>b<td>c<tr><td colspan=2>Total<td>3<tr><td>d<td colspan=9>all",
        ["a | b | c", "Total | Total | 3", "d | all | all"],
    ),
    "a row alone": ("<tr><td colspan=3>Pumps<tr><td>a<td>b<td>c", ["Pumps", "a | b | c"]),
    "a row without cells": ("<tr><td rowspan=3>a<td>b<tr><td><tr></tr><tr><td>c<td>d", ["a | b", "c | d"]),
    "units": (
        "<tr><th>Station<th>Height<th>Rain<tr><th><th>m<th>mm<tr><td>Pier<td>4<td>12",
        ["Station | Height m | Rain mm", "Pier | 4 | 12"],
    ),
    "bold words": (
        "<tr><td><b>Region</b><td><p><strong>2023</strong></p><tr><td>North<td>510",
        ["Region | 2023", "North | 510"],
    ),
    "three rows of names": (
        (
            "<thead><tr><th rowspan=3>Area<th colspan=4>Sales<tr><th colspan=2>2023<th colspan=2>2024<tr>"
            "<th>min<th>max<th>min<th>max</thead><tr><td>N<td>1<td>2<td>3<td>4"
        ),
        ["Area | Sales 2023 min | Sales 2023 max | Sales 2024 min | Sales 2024 max", "N | 1 | 2 | 3 | 4"],
    ),
}
HEADS = {
    "an empty corner": ("<tr><td><th>2022<th>2023<tr><th>North<td>5<td>6", " | 2022 | 2023"),
    "words over numbers": ("<tr><td>Region<td>Seats<tr><td>North<td>510", "Region | Seats"),
    "bold": ("<tr><td><b>Option</b><td><font><b>What</b></font><tr><td>-v<td>more", "Option | What"),
    "nothing but words": ("<tr><td>-v<td>more<tr><td>-q<td>less", ""),
    "rows with heads of their own": ("<tr><th>Age<td>3<tr><th>Size<td>4", ""),
    "names again": ("<tr><th>A<th>B<tr><td>x<td>1<tr><th>C<th>D<tr><td>y<td>2", "C | D"),
}


def lines(table: str) -> list[str]:
    return extract(f"<p>Before.<table>{table}</table>").sections[0].text.split("\n")[2:]


@pytest.mark.parametrize(("table", "expected"), TABLES.values(), ids=TABLES)
def test_a_row_says_what_spans_it(table: str, expected: list[str]) -> None:
    assert lines(table) == expected


@pytest.mark.parametrize(("table", "expected"), HEADS.values(), ids=HEADS)
def test_the_names_of_columns_go_with_the_last_row(table: str, expected: str) -> None:
    (whole,) = extract(f"<p>Before.<table>{table}</table>").sections[0].wholes
    assert whole.head == expected


def test_a_table_within_a_cell_has_spans_of_its_own() -> None:
    inner = "<table><tr><td rowspan=2>a<td>b<tr><td>c</table>"
    assert lines(f"<tr><td>{inner}<td>d") == ["a | b", "a | c", "", "d"]

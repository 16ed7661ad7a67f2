"""Tables of pages: merged cells, and rows that name the columns."""

import pytest

from indexer.read.html.main_content import extract

TABLES = {
    "rows of a group": (
        "<tr><th>Zone<th>Ticket<th>Price<tbody><tr><th scope=row rowspan=2>Harbour<td>Day<td>6<tr><td>Week<td>19",
        ["Zone | Ticket | Price", "Harbour | Day | 6", "Harbour | Week | 19"],
    ),
    "to the end of a group": (
        "<tbody><tr><td rowspan=0>a<td>1<tr><td>2</tbody><tbody><tr><td rowspan=9>b<td>3</tbody><tbody><tr><td>c<td>4",
        ["a | 1", "a | 2", "b | 3", "c | 4"],
    ),
    "columns": (
        "<tr><td>a<td>b<td>c<tr><td colspan=2>Total<td>3<tr><td>d<td colspan=9>all",
        ["a | b | c", "Total | Total | 3", "d | all | all"],
    ),
    "a row of one text": ("<tr><td>a<td>b<td>c<tr><td colspan=2><p>d<p>e<td>", ["a | b | c", "d", "e"]),
    "a row alone": ("<tr><td colspan=3>Pumps<tr><td>a<td>b<td>c", ["Pumps", "a | b | c"]),
    "a row without cells": ("<tr><td rowspan=3>a<td>b<tr><td><tr></tr><tr><td>c<td>d", ["a | b", "c | d"]),
    "broken spans": (
        "<tr><td rowspan=x colspan=-2>a<td>b<tr><td rowspan=' 2px'>c<td>d<tr><td>e",
        ["a | b", "c | d", "c | e"],
    ),
    "two rows of names": (
        "<thead><tr><th rowspan=2>Region<th colspan=2>Sales<tr><th>2023<th>2024</thead><tr><td>North<td>510<td>640",
        ["Region | Sales 2023 | Sales 2024", "North | 510 | 640"],
    ),
    "a title in the head": (
        "<thead><tr><th colspan=2>Fares of May<tr><th>Zone<th>Price</thead><tr><td>Harbour<td>6",
        ["Fares of May", "Zone | Price", "Harbour | 6"],
    ),
    "units": (
        "<tr><th>Station<th>Height<th>Rain<tr><th><th>m<th>mm<tr><td>Pier<td>4<td>12",
        ["Station | Height m | Rain mm", "Pier | 4 | 12"],
    ),
    "units without an element": (
        (
            "<thead><tr><th>Station<th>Height<th>Rain</thead><tr><td><td>m<td>mm<tr><td>Pier<td>4<td>12<tr>"
            "<td>Hill<td>310<td>30"
        ),
        ["Station | Height m | Rain mm", "Pier | 4 | 12", "Hill | 310 | 30"],
    ),
    "a corner of another kind": (
        "<tr><td><th colspan=2>Sales<tr><td><th>2023<th>2024<tr><th>North<td>510<td>640",
        [" | Sales 2023 | Sales 2024", "North | 510 | 640"],
    ),
    "bold words": (
        "<tr><td><b>Region</b><td><p><strong>2023</strong></p><tr><td>North<td>510",
        ["Region | 2023", "North | 510"],
    ),
    "timetable": (
        (
            "<tr><th>Hour<th>Mon<th>Tue<th>Wed<tr><th>8:00<td colspan=2>Music<td>Art<tr><th>9:00<td "
            "rowspan=2>Chess<td colspan=2>Sport<tr><th>10:00<td>Rest<td>Walk"
        ),
        [
            "Hour | Mon | Tue | Wed",
            "8:00 | Music | Music | Art",
            "9:00 | Chess | Sport | Sport",
            "10:00 | Chess | Rest | Walk",
        ],
    ),
    "block in the middle": (
        "<tr><td>a<td colspan=2 rowspan=2>B<td>c<tr><td>d<td>e<tr><td>f<td>g<td>h<td>i",
        ["a | B | B | c", "d | B | B | e", "f | g | h | i"],
    ),
    "lists in a cell": ("<tr><td rowspan=2>a<td><ul><li>x<li>y</ul><tr><td><p>p<p>q", ["a | x y", "a | p q"]),
    "groups beside": (
        (
            "<tr><th>Group<th>Item<th>No<tr><td rowspan=2><a href=/g>G</a><td>i<td>1<tr><td>j<td>2<tr><td "
            "rowspan=1>H<td>k<td>3"
        ),
        ["Group | Item | No", "G | i | 1", "G | j | 2", "H | k | 3"],
    ),
    "three rows of names": (
        (
            "<thead><tr><th rowspan=3>Area<th colspan=4>Sales<tr><th colspan=2>2023<th colspan=2>2024<tr>"
            "<th>min<th>max<th>min<th>max</thead><tr><td>N<td>1<td>2<td>3<td>4"
        ),
        ["Area | Sales 2023 min | Sales 2023 max | Sales 2024 min | Sales 2024 max", "N | 1 | 2 | 3 | 4"],
    ),
    "names below a group without rowspan": (
        "<tr><th><th colspan=2>Price<tr><th>Zone<th>Day<th>Week<tr><td>A<td>1<td>2",
        ["Zone | Price Day | Price Week", "A | 1 | 2"],
    ),
    "units in brackets": (
        "<thead><tr><th>Time<th>Speed</tr><tr><th>(s)<th>(m/s)</thead><tbody><tr><td>1<td>2",
        ["Time (s) | Speed (m/s)", "1 | 2"],
    ),
    "years in td": (
        "<tr><td>Region<td>2022<td>2023<tr><td>N<td>51<td>64<tr><td>S<td>12<td>9",
        ["Region | 2022 | 2023", "N | 51 | 64", "S | 12 | 9"],
    ),
    "empty row above": ("<tr><td><td><tr><th>A<th>B<tr><td>1<td>2", ["A | B", "1 | 2"]),
    "total": (
        "<tr><th>A<th>B<th>C<tr><td>x<td>y<td>1<tfoot><tr><td colspan=2>Sum<td>1",
        ["A | B | C", "x | y | 1", "Sum | Sum | 1"],
    ),
    "right rowspan": ("<tr><td>a<td>b<td rowspan=2>c<tr><td>d<td>e", ["a | b | c", "d | e | c"]),
    "thead td bold": ("<thead><tr><td><b>A</b><td><b>B</b></thead><tr><td>1<td>2", ["A | B", "1 | 2"]),
    "th in the first column only with head": (
        "<tr><td><th>2023<th>2024<tr><th>North<td>5<td>6<tr><th>South<td>7<td>8",
        [" | 2023 | 2024", "North | 5 | 6", "South | 7 | 8"],
    ),
    "caption": ("<caption>Fares</caption><tr><th>Zone<th>Price<tr><td>A<td>1", ["Fares", "", "Zone | Price", "A | 1"]),
    "rowspan of groups with rowspan head": (
        (
            "<thead><tr><th rowspan=2>Zone<th rowspan=2>Ticket<th colspan=2>Price<tr><th>Adult<th>Child</thead>"
            "<tbody><tr><td rowspan=2>Harbour<td>Day<td>6<td>3<tr><td>Week<td>19<td>9"
        ),
        ["Zone | Ticket | Price Adult | Price Child", "Harbour | Day | 6 | 3", "Harbour | Week | 19 | 9"],
    ),
    "sections in the body": (
        "<tr><th>A<th>B<tbody><tr><th colspan=2>North<tr><td>1<td>2<tbody><tr><th colspan=2>South<tr><td>3<td>4",
        ["A | B", "North", "1 | 2", "South", "3 | 4"],
    ),
    "all th": ("<tr><th>A<th>B<tr><th>1<th>2<tr><th>3<th>4", ["A | B", "1 | 2", "3 | 4"]),
    "rowspan over three with rest": (
        "<tr><td rowspan=3>G<td rowspan=2>H<td>1<tr><td>2<tr><td>I<td>3",
        ["G | H | 1", "G | H | 2", "G | I | 3"],
    ),
}
HEADS = {
    "heads in the body": ("<tr><th>Region<th>2023<tr><td>North<td>510", "Region | 2023"),
    "an empty corner": ("<tr><td><th>2022<th>2023<tr><th>North<td>5<td>6", " | 2022 | 2023"),
    "years without an element": ("<tr><td>Region<td>2023<td>2024<tr><td>North<td>510<td>640", "Region | 2023 | 2024"),
    "words over numbers": ("<tr><td>Region<td>Seats<tr><td>North<td>510", "Region | Seats"),
    "bold": ("<tr><td><b>Option</b><td><font><b>What</b></font><tr><td>-v<td>more", "Option | What"),
    "a title above": ("<tr><td colspan=2>Fares<tr><th>Zone<th>Price<tr><td>Harbour<td>6", "Zone | Price"),
    "two rows": (
        "<tr><th rowspan=2>Area<th colspan=2>Sales<tr><th>min<th>max<tr><td>N<td>1<td>2",
        "Area | Sales min | Sales max",
    ),
    "nothing but words": ("<tr><td>-v<td>more<tr><td>-q<td>less", ""),
    "rows with heads of their own": ("<tr><th>Age<td>3<tr><th>Size<td>4", ""),
    "sums at the end": ("<tr><td>a<td>b<tr><th>Total<th>4", ""),
    "names again": ("<tr><th>A<th>B<tr><td>x<td>1<tr><th>C<th>D<tr><td>y<td>2", "C | D"),
    "sums in between": ("<tr><th>A<th>B<tr><td>x<td>1<tr><th>Sum<th>1<tr><td>y<td>2", "A | B"),
    "a part's title": ("<tr><th>A<th>B<tr><td>x<td>1<tr><th>Part<th><tr><td>y<td>2", "A | B"),
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

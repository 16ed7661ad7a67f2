"""Workbooks as Excel, LibreOffice and programs write them: values as people see them, merged cells, heads of tables."""

from datetime import date, datetime, time, timedelta

import pytest

from indexer.read.office import sheets
from indexer.read.office.sheets import Value, format_value
from indexer.text import reader_notes
from tests.indexer import files

FORMATS = [
    (0.25, "0.0%", "25.0%"), (0.1 + 0.2, "General", "0.3"), (1e20, "General", "100000000000000000000"),
    (12345678901234567890, "General", "12345678901234600000"), (1e-7, "General", "1E-07"), (-3.0, "General", "-3"),
    (1234.5, "#,##0.00 €", "1,234.50 €"), (1234.5, r"[$€-407]\ #,##0.00", "€ 1,234.50"), (3, "00000", "00003"),
    (-5, "0;(0)", "-5"), (-5.5, "$0.00", "-$5.50"), (0, '#,##0;-#,##0;"-"', "0"), (-0.001, "0.0", "0.0"),
    (1234567, '0.0,,"M"', "1234567"), (0.5, "# ?/?", "0.5"),
    (12345.678, "0.00E+00", "12345.678"), (5551234, "000-0000", "5551234"), (2.675, "0.00", "2.68"),
    (0.125, "0.00", "0.13"), (1.5, "0.##", "1.5"), (2, "0.##", "2"), (7, '0 "kg"', "7 kg"), (123, "@", "123"),
    (-7, r'_-* #,##0.00\ "zł"_-;\-* #,##0.00\ "zł"_-;_-* "-"??\ "zł"_-;_-@_-', "-7.00 zł"),
    (1500, '[>=1000]0.0,"k";0', "1500"), (-3, "0.0;[Red]-0.0", "-3.0"),
    (0.5, ";;;", "0.5"), (True, "0", "TRUE"), (45356, "yyyy-mm-dd", "2024-03-05"),
    (date(2024, 3, 5), "General", "2024-03-05"), (date(2024, 3, 5), "d/m/yyyy", "5/3/2024"),
    (date(2024, 3, 5), "[$-409]mmmm d, yyyy;@", "March 5, 2024"), (date(2024, 3, 5), "ddd dd.mm.yy", "Tue 05.03.24"),
    (datetime(2024, 3, 5, 14, 30), "General", "2024-03-05 14:30"), (time(14, 30), "h:mm AM/PM", "2:30 PM"),
    (datetime(2024, 3, 5, 14, 5), "dd.mm.yyyy hh:mm", "05.03.2024 14:05"), (time(0, 2, 3), "mm:ss", "02:03"),
    (timedelta(hours=30, minutes=5), "[h]:mm", "30:05:00"), (timedelta(minutes=-90), "[h]:mm", "-1:30:00"),
    (45356, "yyyy ſ", "2024 ſ"), (1.25, "[h]:mm", "1.25"), (2958465.9999999, "hh:mm", "23:59"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "code", "expected"), FORMATS)
def test_values_by_the_format_of_their_cell(value: Value, code: str, expected: str) -> None:
    assert format_value(value, code) == expected


def text(*rows: str, styles: str = "", after: str = "", kind: str = "worksheet") -> str:
    """The text of a sheet whose rows are cells in XML."""
    body = "".join(f'<row r="{number}">{cells}</row>' for number, cells in enumerate(rows, start=1))
    parts = {
        "xl/worksheets/1.xml": f"<worksheet {files.SHEET}><sheetData>{body}</sheetData>{after}</worksheet>",
        "xl/_rels/workbook.xml.rels": files.relations(s1=f"{kind} worksheets/1.xml", s="styles styles.xml"),
        "xl/styles.xml": f"<styleSheet {files.SHEET}>{styles}</styleSheet>",
    }
    found = sheets.read(files.with_parts(files.xlsx(Sheet=[]), dict(parts)), None).sections
    return found[0].text if found else ""


words = '<c r="{}" t="inlineStr"><is><t>{}</t></is></c>'.format


def number(place: str, value: object, style: int = 0) -> str:
    return f'<c r="{place}" s="{style}"><v>{value}</v></c>'


def row(place: int, contents: str) -> str:
    """Cells of a row, as words and numbers parted by `|`."""
    pairs = zip("ABCDEFGH", contents.split("|"), strict=False)
    return "".join(
        number(f"{column}{place}", content) if content.isdigit() else words(f"{column}{place}", content)
        for column, content in pairs
        if content
    )


def test_numbers_and_dates_are_as_their_cells_show_them() -> None:
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="#,##0.0&quot; kg&quot;"/></numFmts><cellXfs><xf numFmtId="0"/>'
        '<xf numFmtId="9"/><xf numFmtId="164"/><xf numFmtId="14"/><xf numFmtId="44"/></cellXfs>'
    )
    cells = (
        words("A1", "Boat") + number("B1", 0.256, 1) + number("C1", 1234.56, 2) + number("D1", 45356, 3)
        + number("E1", 9.5, 4) + number("F1", 0.1 + 0.2) + '<c r="G1" t="b"><v>1</v></c>'
        '<c r="H1" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="I1"><v>7</v></c>'
    )  # fmt: skip
    assert text(cells, styles=styles) == "Boat | 26% | 1,234.6 kg | 2024-03-05 | $9.50 | 0.3 | TRUE | 7"


@pytest.mark.parametrize(
    ("contents", "ranges", "expected"),
    [
        (("Zone|Ticket|Price", "Port|Day|6", "|Week|19", "Quay|Day|8"), ["A2:A3"],
         "Zone: Port | Ticket: Day | Price: 6\nZone: Port | Ticket: Week | Price: 19\n"
         "Zone: Quay | Ticket: Day | Price: 8"),
        (("Fares of the port||", "Zone|Ticket|Price", "Port|Day|6", "Quay|Day|8"), ["A1:C1"],
         "Fares of the port\nZone: Port | Ticket: Day | Price: 6\nZone: Quay | Ticket: Day | Price: 8"),
        (("Zone|Ticket|Price", "In summer", "Port|Day|8", "In winter", "Port|Day|6"), ["A2:C2", "A4:C4"],
         "Zone: In summer\nZone: Port | Ticket: Day | Price: 8\nZone: In winter\nZone: Port | Ticket: Day | Price: 6"),
        (("a|b", "c|d"), ["A1:B2", "A1:XFD1048576"], "a\na"),
    ],
)  # fmt: skip
def test_merged_cells(contents: tuple[str, ...], ranges: list[str], expected: str) -> None:
    rows = (row(place, content) for place, content in enumerate(contents, start=1))
    merged = "".join(f'<mergeCell ref="{one}"/>' for one in ranges)
    assert text(*rows, after=f"<mergeCells>{merged}</mergeCells>") == expected


def test_formulas_without_a_value_and_sheets_that_are_charts_are_noted() -> None:
    reader_notes.take()
    assert text(words("A1", "a") + '<c r="B1"><f>1+1</f></c>') == "a"
    assert reader_notes.take() == ("formulas without a stored value were left out",)
    assert text(kind="chartsheet") == ""
    assert reader_notes.take() == ("a sheet that is a chart or a macro was not read",)


def test_a_damaged_sheet_costs_itself() -> None:
    reader_notes.take()
    book = files.xlsx(Good=[["a", "b"]], Bad=[["c"]])
    broken = (
        f'<worksheet {files.SHEET}><sheetData><row r="1"><c r="A1" t="n"><v> 41</v></c></row></sheetData></worksheet>'
    )
    found = sheets.read(files.with_parts(book, {"xl/worksheets/2.xml": broken}), None).sections
    assert [section.text for section in found] == ["a | b"]
    assert reader_notes.take() == ("a damaged sheet of a workbook was not read",)


def test_text_boxes() -> None:
    drawing = (
        '<xdr:wsDr xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><xdr:sp><xdr:txBody><a:p><a:r><a:t>Closed '
        "</a:t></a:r><a:r><a:t>on Sundays</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:wsDr>"
    )
    parts = {"xl/worksheets/_rels/1.xml.rels": files.relations(d="drawing ../d.xml"), "xl/d.xml": drawing}
    [section] = sheets.read(files.with_parts(files.xlsx(Sheet=[["a", "b"]]), dict(parts)), None).sections
    assert section.text == "a | b\nClosed on Sundays"


FIRST = '<row r="1">' + row(1, "Zone|Colour") + "</row>"


def sheet_of(contents: str, **parts: str) -> str:
    """The text of a sheet of this XML; `parts` are others that it refers to, by their kind."""
    more: dict[str, str | bytes] = {f"xl/{kind}.xml": content for kind, content in parts.items()}
    more["xl/worksheets/1.xml"] = f"<worksheet {files.SHEET}>{contents}</worksheet>"
    more["xl/worksheets/_rels/1.xml.rels"] = files.relations(**{kind: f"{kind} ../{kind}.xml" for kind in parts})
    return sheets.read(files.with_parts(files.xlsx(Sheet=[]), more), None).sections[0].text


def test_hidden_rows_and_columns_are_read() -> None:
    hidden = '<row r="2" hidden="1">' + row(2, "Quay|blue") + "</row>"
    columns = '<cols><col min="2" max="2" hidden="1"/></cols>'
    assert sheet_of(f"{columns}<sheetData>{FIRST}{hidden}</sheetData>") == "Zone: Quay | Colour: blue"


def test_comments_and_conversations_are_read_once() -> None:
    comments = (
        "<comments><authors><author>Ann</author><author>tc={{1}}</author></authors><commentList>"
        '<comment ref="A1" authorId="0"><text><r><t>At low </t></r><r><t>tide</t></r></text></comment>'
        '<comment ref="B1" authorId="1"><text><t>NO</t></text></comment>'
        '<comment ref="B2" authorId="9"><text><t>Nobody\'s</t></text></comment></commentList></comments>'
    )
    talk = "<ThreadedComments><threadedComment><text>Is it so?</text></threadedComment></ThreadedComments>"
    found = sheet_of(f"<sheetData>{FIRST}</sheetData>", comments=comments, threadedComment=talk)
    assert found == "Zone | Colour\nAt low tide\nNobody's\nIs it so?"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["No|Name|Signature", "1|Ann", "2|Tom"], "Signature\nNo: 1 | Name: Ann\nNo: 2 | Name: Tom"),
        (["Name|Phone|Diet"], "Name | Phone | Diet"),
        (["Name|Age|Diet", "Ann|5", "Tom|6", "", "Boat|Berth|Paid|Left", "Gull|7|9", "Tern|8|9"],
         "Diet\nName: Ann | Age: 5\nName: Tom | Age: 6\nLeft\nBoat: Gull | Berth: 7 | Paid: 9\n"
         "Boat: Tern | Berth: 8 | Paid: 9"),
    ],
)  # fmt: skip
def test_headings_above_empty_columns_are_read(rows: list[str], expected: str) -> None:
    assert text(*(row(place, content) for place, content in enumerate(rows, start=1))) == expected


def cell(content: str, properties: str = "", name: str = "table-cell") -> str:
    return f"<table:{name} {properties}><text:p>{content}</text:p></table:{name}>"


def table(*rows: str, columns: str = "", style: str = "") -> str:
    lines = "".join(
        line if line.startswith("<table:table-row ") else f"<table:table-row>{line}</table:table-row>" for line in rows
    )
    return f'<table:table table:name="S" table:style-name="{style}">{columns}{lines}</table:table>'


GAP = '<table:table-cell table:number-columns-repeated="{}"/>'
COVERED = '<table:covered-table-cell table:number-columns-repeated="{}"/>'
DRAW = "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
HEAD = cell("Zone") + cell("Price")


@pytest.mark.parametrize(
    ("sheet", "expected"),
    [
        (table(HEAD, cell("Port") + cell("25%", 'office:value="0.25"'), cell("Quay") + cell("3 €", 'office:value="3"')),
         "Zone: Port | Price: 25%\nZone: Quay | Price: 3 €"),
        (table(HEAD, cell("Port", 'table:number-rows-spanned="2"') + cell("1"), COVERED.format(1) + cell("2")),
         "Zone: Port | Price: 1\nZone: Port | Price: 2"),
        (table(GAP.format(2) + HEAD + GAP.format(16_000), GAP.format(2) + cell("Port") + cell("1"),
               '<table:table-row table:number-rows-repeated="1048574"><table:table-cell/></table:table-row>'),
         "Zone: Port | Price: 1"),
        (table(HEAD, '<table:table-row table:visibility="collapse">' + cell("Quay") + cell("1") + "</table:table-row>",
               cell("Port<text:s text:c='2'/>one"
               "<office:annotation><text:p>Since May</text:p></office:annotation>") + cell("2")),
         "Zone: Quay | Price: 1\nZone: Port one | Price: 2\nSince May"),
        (table(cell("x", 'table:number-columns-repeated="2"')) + table(cell("NO"), style="off"), "x | x"),
        (table(cell("a") + f'<table:table-cell xmlns:draw="{DRAW}"><draw:frame><draw:text-box><text:p>Closed</text:p>'
               "</draw:text-box></draw:frame></table:table-cell>"), "a\nClosed"),
    ],
)  # fmt: skip
def test_ods(sheet: str, expected: str) -> None:
    found = sheets.read(files.ods(sheet), None)
    assert [section.text for section in found.sections] == [expected]
    assert (found.title, found.declared.date) == ("Zoo", "2026-05-01")

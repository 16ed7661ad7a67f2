"""Small PDFs drawn for a test: text and lines at places, pages turned, bookmarks."""

from collections.abc import Sequence

from indexer.read.pdf.document import read
from tests.indexer.files import pdf_of


def text(
    x: float, y: float, words: str, *, size: float = 10, bold: bool = False, fixed: bool = False, mode: int = 0
) -> str:
    """A piece of text; `mode` 3 draws what nobody sees."""
    shown = words.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT /F{3 if fixed else 2 if bold else 1} {size} Tf {mode} Tr 1 0 0 1 {x} {y} Tm ({shown}) Tj ET"


# first code of a range in the font of `script`, its first letter, and how many there are: digits, Hebrew, Arabic, forms
_RANGES = ((0x20, 0x20, 0x20), (0x40, 0x5D0, 27), (0x5B, 0x627, 36), (0xA1, 0xFEA1, 92))


def script(x: float, y: float, words: str, *, size: float = 10) -> str:
    """A piece of text in Hebrew or Arabic script, in the order given; each letter is 0.6 of the size wide."""
    codes = [next(code + ord(letter) - first for code, first, many in _RANGES if 0 <= ord(letter) - first < many)
             for letter in words]  # fmt: skip
    return f"BT /F4 {size} Tf 1 0 0 1 {x} {y} Tm <{bytes(codes).hex()}> Tj ET"


def from_the_right(right: float, y: float, words: str, *, size: float = 10) -> str:
    """A piece of text in Hebrew or Arabic script whose letters are drawn one by one, without spaces."""
    places = enumerate(words, start=1)
    return "\n".join(script(right - 0.6 * size * place, y, one, size=size) for place, one in places if one != " ")


def unmapped(x: float, y: float, codes: str) -> str:
    """A piece of text in a font that does not say what its letters are; codes in hexadecimal, four digits each."""
    return f"BT /F5 10 Tf 1 0 0 1 {x} {y} Tm <{codes}> Tj ET"


def lines(x: float, y: float, *texts: str, step: float = 12, fixed: bool = False) -> str:
    """Lines below each other."""
    return "\n".join(text(x, y - step * number, line, fixed=fixed) for number, line in enumerate(texts))


def rule(left: float, bottom: float, right: float, top: float) -> str:
    """A line that is drawn."""
    return f"0.5 w {left} {bottom} m {right} {top} l S"


def drawn(
    *pages: str,
    bookmarks: Sequence[tuple[str, int]] = (),
    turned: int = 0,
    annotations: Sequence[str] = (),
    size: tuple[int, int] = (600, 800),
) -> bytes:
    """Return a PDF of pages of 600 × 800 points, or of another size.

    Bookmarks are titles with the number of a page from 0; annotations are entries of a dictionary, on the first page.
    """
    courier = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier"
    script = f"{courier} /ToUnicode {6 + len(bookmarks) + 2 * len(pages)} 0 R >>"
    descendant = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Nameless /DW 500 /CIDToGIDMap /Identity "
    descendant += "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    nameless = (
        f"<< /Type /Font /Subtype /Type0 /BaseFont /Nameless /Encoding /Identity-H /DescendantFonts [{descendant}] >>"
    )
    fonts = f"<< /F1 3 0 R /F2 4 0 R /F3 {courier} >> /F4 {script} /F5 {nameless} >>"
    first = 6 + len(bookmarks)
    own = [f"{first + 2 * len(pages) + 1 + place} 0 R" for place in range(len(annotations))]
    fields = " ".join(one for one, entries in zip(own, annotations, strict=True) if "/Widget" in entries)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {'/Outlines 5 0 R' if bookmarks else ''} "
        f"/AcroForm << /Fields [{fields}] >> >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
        f"<< /First 6 0 R /Last {5 + len(bookmarks)} 0 R /Count {len(bookmarks)} >>",
    ]
    for number, (title, page) in enumerate(bookmarks):
        following = f"/Next {7 + number} 0 R" if number + 1 < len(bookmarks) else ""
        objects.append(f"<< /Title ({title}) /Parent 5 0 R {following} /Dest [{first + 2 * page} 0 R /Fit] >>")
    for number, stream in enumerate(pages):
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] /Rotate {turned} "
            f"/Annots [{'' if number else ' '.join(own)}] "
            f"/Contents {first + 1 + 2 * number} 0 R /Resources << /Font {fonts} >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    unicode_map = f"1 begincodespacerange <00> <FF> endcodespacerange {len(_RANGES)} beginbfrange "
    unicode_map += "".join(f"<{code:02x}> <{code + many - 1:02x}> <{letter:04x}> " for code, letter, many in _RANGES)
    unicode_map += "endbfrange"
    objects.append(f"<< /Length {len(unicode_map)} >>\nstream\n{unicode_map}\nendstream")
    objects += [f"<< /Type /Annot {entries} >>" for entries in annotations]
    return pdf_of(objects)


def read_text(*pages: str, annotations: Sequence[str] = ()) -> str:
    """Return the headings and texts that are read of pages, without the name of the first page."""
    sections = read(drawn(*pages, annotations=annotations), None).sections
    return "\n".join("\n".join((*section.path, section.text)) for section in sections).removeprefix("Page 1\n")

"""Small documents of every kind, made by hand so that a test can say what is wrong with one."""

import io
import zipfile
from collections.abc import Sequence
from html import escape

_W = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
SHEET = (
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>{title}</dc:title>'
    "<dc:language>en-GB</dc:language><dcterms:modified>2026-05-01T10:00:00Z</dcterms:modified></cp:coreProperties>"
)
STYLES = (
    f"<w:styles {_W}><w:style w:styleId='H1'><w:name w:val='heading 1'/></w:style>"
    "<w:style w:styleId='H2'><w:name w:val='Heading 2'/></w:style>"
    "<w:style w:styleId='Ghost'><w:name w:val='Ghost'/><w:rPr><w:vanish/></w:rPr></w:style></w:styles>"
)


def zipped(parts: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def with_parts(document: bytes, changed: dict[str, str | bytes]) -> bytes:
    """A zipped document with other parts."""
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        parts: dict[str, str | bytes] = {part: archive.read(part) for part in archive.namelist()}
    return zipped(parts | changed)


def relations(**targets: str) -> str:
    """`id="type target"` of each."""
    items = (
        f'<Relationship Id="{identity}" Type="{_TYPE}/{kind}" Target="{target}"/>'
        for identity, (kind, target) in ((name, value.split()) for name, value in targets.items())
    )
    namespace = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{namespace}">{"".join(items)}</Relationships>'


def paragraph(text: str, style: str = "", run: str = "") -> str:
    properties = f"<w:pPr><w:pStyle w:val='{style}'/></w:pPr>" if style else ""
    return f"<w:p>{properties}<w:r><w:rPr>{run}</w:rPr><w:t>{escape(text)}</w:t></w:r></w:p>"


def docx_parts(body: str, title: str = "", **others: str) -> dict[str, str | bytes]:
    """`others` are the contents of parts such as `footnotes`, by their kind."""
    parts: dict[str, str | bytes] = {
        f"word/{kind}.xml": f"<w:{kind} {_W}>{content}</w:{kind}>" for kind, content in others.items()
    }
    return {
        "_rels/.rels": relations(r1="officeDocument word/document.xml"),
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(
            s="styles styles.xml", c="comments comments.xml", **{kind: f"{kind} {kind}.xml" for kind in others}
        ),
        "word/styles.xml": STYLES,
        "word/comments.xml": f"<w:comments {_W}><w:comment>{paragraph('COMMENT')}</w:comment></w:comments>",
        "docProps/core.xml": CORE.format(title=title),
        **parts,
    }


def docx(body: str, title: str = "", **others: str) -> bytes:
    return zipped(docx_parts(body, title, **others))


def shape(text: str, kind: str = "body") -> str:
    return (
        f"<p:sp><p:nvSpPr><p:cNvPr id='1' name='n'/><p:nvPr><p:ph type='{kind}'/></p:nvPr></p:nvSpPr><p:txBody>"
        f"<a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def pptx(*slides: str, notes: str = "") -> bytes:
    """`slides` are shapes of each; one that starts with `hidden` is not shown."""
    parts: dict[str, str | bytes] = {
        "ppt/presentation.xml": f"<p:presentation {_P}><p:sldIdLst>"
        + "".join(f'<p:sldId id="{number}" r:id="s{number}"/>' for number in range(len(slides)))
        + "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            **{f"s{number}": f"slide slides/{number}.xml" for number in range(len(slides))}
        ),
        "docProps/core.xml": CORE.format(title="Deck"),
    }
    for number, shapes in enumerate(slides):
        show = ' show="0"' if shapes.startswith("hidden") else ""
        tree = f"<p:cSld><p:spTree>{shapes.removeprefix('hidden')}</p:spTree></p:cSld>"
        parts[f"ppt/slides/{number}.xml"] = f"<p:sld {_P}{show}>{tree}</p:sld>"
    if notes:
        parts["ppt/slides/_rels/0.xml.rels"] = relations(n="notesSlide ../notes/0.xml")
        parts["ppt/notes/0.xml"] = f"<p:notes {_P}>{shape(notes)}{shape('7', 'sldNum')}</p:notes>"
    return zipped(parts)


def xlsx(**sheets: list[list[str]]) -> bytes:
    """A sheet whose name starts with `Hidden` is not shown."""
    names = list(sheets)
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": relations(r1="officeDocument xl/workbook.xml"),
        "xl/workbook.xml": f"<workbook {SHEET}><sheets>"
        + "".join(
            f'<sheet name="{name}" sheetId="{number}" r:id="s{number}"'
            + (' state="hidden"/>' if name.startswith("Hidden") else "/>")
            for number, name in enumerate(names, start=1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            **{f"s{number}": f"worksheet worksheets/{number}.xml" for number in range(1, len(names) + 1)}
        ),
        "docProps/core.xml": CORE.format(title="Book"),
    }
    for number, name in enumerate(names, start=1):
        rows = "".join(
            "<row>" + "".join(f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>' for cell in row) + "</row>"
            for row in sheets[name]
        )
        parts[f"xl/worksheets/{number}.xml"] = f"<worksheet {SHEET}><sheetData>{rows}</sheetData></worksheet>"
    return zipped(parts)


def ods(*tables: str) -> bytes:
    """A table in the style `off` is not shown."""
    names = ("office", "table", "text", "style", "dc")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names[:-1])
    spaces += ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    hidden = '<style:style style:name="off"><style:table-properties table:display="false"/></style:style>'
    body = f"<office:body><office:spreadsheet>{''.join(tables)}</office:spreadsheet></office:body>"
    return zipped(
        {
            "content.xml": f"<office:document-content {spaces}>{hidden}{body}</office:document-content>",
            "meta.xml": f"<office:document-meta {spaces}><dc:title>Zoo</dc:title><dc:date>2026-05-01T10:00:00</dc:date>"
            "</office:document-meta>",
        }
    )


def epub(**chapters: str) -> bytes:
    items = "".join(
        f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in reversed(chapters)
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    return zipped(
        {
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Zoo</dc:title><dc:language>en</dc:language>'
            f"<dc:date>2024-02-03</dc:date></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"OEBPS/{name}.xhtml": text for name, text in chapters.items()},
        }
    )


def pdf(*pages: str, title: str = "", trailer: str = "") -> bytes:
    """A line of a page is a line on it; `trailer` is added to the dictionary of that name."""
    kids = " ".join(f"{number} 0 R" for number in range(5, 5 + 2 * len(pages), 2))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) /ModDate (D:20260501100000Z) >>",
    ]
    for number, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 700 Td {lines} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {6 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    return pdf_of(objects, f"/Info 4 0 R {trailer}")


def pdf_of(objects: Sequence[str], trailer: str = "") -> bytes:
    """A PDF of objects that are numbered from 1."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    out += f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


ENCRYPTED_PDF = pdf(
    "secret",
    trailer=f"/ID [<{'0' * 32}> <{'0' * 32}>] "
    f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -44 /O <{'1' * 64}> /U <{'2' * 64}> >>",
)
NOTEBOOK = (
    '{"cells": [{"cell_type": "markdown", "source": ["# Cats\\n", "They sleep."]}, {"cell_type": "code", "source": '
    '"print(1)", "outputs": [{"output_type": "stream", "text": ["one\\n"]}, {"data": {"text/html": '
    '"<script></script><p>NO"}}]}, {"cell_type": "raw", "source": "Raw"}]}'
)
MAIL = (
    "Subject: =?utf-8?q?F=C3=BCttern?=\r\nFrom: Ann <ann@zoo.test>\r\nTo: bob@zoo.test\r\n"
    "Date: Fri, 1 May 2026 10:00:00 +0200\r\nMIME-Version: 1.0\r\n"
    "Content-Type: multipart/alternative; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nThe cats are fed.\r\n"
    "--b\r\nContent-Type: text/html\r\n\r\n<p>HTML<p>\r\n--b--\r\n"
)

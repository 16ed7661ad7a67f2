"""Read EPUB files, and the elements that Office formats share. All these files are zip files of XML.

The shared elements are document properties, diagrams, chart titles, picture descriptions, equations and symbols. The
size of zip entries is limited, and XML with a document type is refused, because it could define entities.
"""

import io
import posixpath
import re
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lxml import etree

from indexer.errors import ParseError
from indexer.read.container import DAMAGED
from indexer.read.extraction import first_day, language_of
from indexer.read.html.main_content import extract
from indexer.records import Declared, Extraction, Section
from indexer.text import reader_notes
from indexer.text.charsets import decode

OLE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED_STREAMS = ("EncryptedPackage", "EncryptedSummary")
_LOCKED_XLS = re.compile(rb"\x09\x08(?:\x08\x00.{8}|\x10\x00.{16})(?:\x86\x00\x00\x00)?\x2f\x00", re.DOTALL)
_MAX_ENTRIES = 20_000
_MAX_ENTRY_BYTES = 40_000_000
_MAX_TOTAL_BYTES = 200_000_000
_STRICT_NAMESPACE = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


def refuse_ole(body: bytes, *, is_workbook: bool = False) -> None:
    """Raise ParseError for a file in the OLE format of Office before 2007. A workbook is refused only if encrypted."""
    has_encrypted_stream = any(name.encode("utf-16-le") in body for name in _ENCRYPTED_STREAMS)
    if has_encrypted_stream or (is_workbook and _LOCKED_XLS.search(body)):
        raise ParseError("encrypted: it opens only with a password")
    if not is_workbook:
        raise ParseError("in the Office format used before 2007, which is not read")


class Package:
    """A zip file that contains one document. Limits the size of each entry and the total size of the entries read."""

    def __init__(self, body: bytes) -> None:
        """Open a document. Raises ParseError if the document is not a zip file or has too many entries."""
        if body.startswith(OLE):
            refuse_ole(body)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(body))
        except DAMAGED as error:
            raise ParseError("truncated or damaged: it is not a readable zip file") from error
        self._names = {info.filename: info for info in self._zip.infolist()}
        self._bytes_read = 0
        if len(self._names) > _MAX_ENTRIES:
            raise ParseError(f"more than {_MAX_ENTRIES:,} parts")

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry. Raises ParseError if the entry is missing, damaged, encrypted or too large."""
        info = self._names.get(name)
        if info is None:
            raise ParseError(f"truncated or damaged: it has no part {name[:100]}")
        if info.flag_bits & 1:
            raise ParseError(f"encrypted: its part {name[:100]} opens only with a password")
        try:
            with self._zip.open(info) as file:
                data = file.read(_MAX_ENTRY_BYTES + 1)
        except DAMAGED as error:
            raise ParseError(f"truncated or damaged: its part {name[:100]} cannot be read") from error
        self._bytes_read += len(data)
        if len(data) > _MAX_ENTRY_BYTES or self._bytes_read > _MAX_TOTAL_BYTES:
            raise ParseError(f"more than {_MAX_ENTRY_BYTES:,} bytes in a part, or {_MAX_TOTAL_BYTES:,} in all")
        return data

    def check_sizes(self) -> None:
        """Decompress every entry. Raises ParseError if an entry is damaged or too large."""
        for name in self._names:
            self.read(name)

    def xml(self, name: str) -> Any:
        """Return the root element of an XML entry. Raises ParseError if the entry is missing or cannot be parsed."""
        data = self.read(name)
        return parse_xml(_STRICT_NAMESPACE.sub(_TRANSITIONAL, data) if _STRICT_NAMESPACE.search(data) else data)

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return `(kind, target)` by id for each reference from an entry to another entry of the package."""
        folder, _, file = name.rpartition("/")
        listing = f"{folder}/_rels/{file}.rels".lstrip("/")
        if listing not in self:
            return {}
        return {
            item.get("Id", ""): (item.get("Type", "").rpartition("/")[2], resolve_target(name, item.get("Target", "")))
            for item in self.xml(listing).iter(_RELATIONS)
            if item.get("TargetMode") != "External"
        }


def parse_xml(data: bytes) -> Any:
    """Return the root element of XML. Raises ParseError if the XML is malformed or has a document type."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"invalid XML: {' '.join(str(error).split())[:100]}") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise ParseError("XML with a document type declaration, which is not allowed")
    return root


def resolve_target(base: str, target: str) -> str:
    """Resolve `target`, a reference in the entry `base`, to the name of an entry. The result never begins with `..`."""
    path = unquote(target.partition("#")[0])
    joined = path if path.startswith("/") else posixpath.join(posixpath.dirname(base), path)
    return posixpath.normpath(f"/{joined}").lstrip("/")


def main_part(package: Package, usual: str) -> str:
    """Return the name of the entry that a package declares as its main document, or `usual` if it declares none."""
    candidates = [name for kind, name in package.relations("").values() if kind == "officeDocument"]
    return next((name for name in candidates if name in package), usual)


_DC, _TERMS = "{http://purl.org/dc/elements/1.1/}", "{http://purl.org/dc/terms/}"


def document_properties(package: Package) -> tuple[str | None, Declared]:
    """Return the title of a document or None, and a `Declared` with its language and the date of its last change."""
    try:
        root = package.xml("meta.xml" if "meta.xml" in package else "docProps/core.xml")
    except ParseError:
        return None, Declared()
    return _properties_of(root)


def _properties_of(root: Any) -> tuple[str | None, Declared]:
    texts = {entry.get("property", entry.tag): entry.text for entry in reversed([*root.iter("{*}*")])}
    days = [texts.get(name) for name in ("dcterms:modified", f"{_TERMS}modified", f"{_TERMS}created", f"{_DC}date")]
    return texts.get(f"{_DC}title"), Declared(language_of(texts.get(f"{_DC}language")), first_day(days))


_ROOTFILE = "{urn:oasis:names:tc:opendocument:xmlns:container}rootfile"
_OPF = "{http://www.idpf.org/2007/opf}"
_NOTE_REFERENCE = re.compile(r"(?=<a\b[^<>]*\bnoteref\b|<sup\b[^<>]*><a\b)")
_CHAPTER_TYPES = ("application/xhtml+xml", "text/html")


def read_epub(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of an EPUB file. Raises ParseError if the file is damaged, encrypted or too large."""
    package = Package(body)
    if any(mark in package for mark in ("META-INF/rights.xml", "META-INF/license.lcpl")):
        raise ParseError("encrypted: it is protected against copying")
    rootfile = next(package.xml("META-INF/container.xml").iter(_ROOTFILE), None)
    name = resolve_target("", rootfile.get("full-path", "") if rootfile is not None else "")
    root = package.xml(name)
    items = {
        item.get("id"): resolve_target(name, item.get("href", ""))
        for item in root.iter(f"{_OPF}item")
        if item.get("media-type") in _CHAPTER_TYPES and "nav" not in item.get("properties", "").split()
    }
    sections: list[Section] = []
    # the spine (the reading order) of a book may list a chapter several times, with different anchors
    for chapter in dict.fromkeys(items.get(entry.get("idref"), "") for entry in root.iter(f"{_OPF}itemref")):
        if chapter not in package:
            continue
        page = extract(_NOTE_REFERENCE.sub(" ", decode(package.read(chapter), None, markup=True)))
        sections += [
            Section(section.path or ((page.title,) if page.title else ()), None, section.text)
            for section in page.sections
        ]
    head = root.find(f"{_OPF}metadata")
    title, declared = (None, Declared()) if head is None else _properties_of(head)
    return Extraction(title, tuple(sections), declared)


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DELETED = (f"{W}del", f"{W}moveFrom")
_IN_FONT = re.compile("[\uf020-\uf0ff]")
_RUNS: dict[str, str] = tomllib.loads(Path(__file__).with_name("symbols.toml").read_text("utf-8"))
_FONTS = {
    font: {int(run[:2], 16) + place: sign for run in runs.split() for place, sign in enumerate(run[2:])}
    for font, runs in _RUNS.items()
}


def text_of_symbol(element: Any) -> str:
    """Return the character of a `w:sym` element, or an empty string if it is unknown."""
    try:
        return _character(int(element.get(f"{W}char", ""), 16), element.get(f"{W}font", ""))
    except ValueError:
        return ""


def decode_font_text(text: str, font: str) -> str:
    """Replace private-use characters of symbol fonts, such as Wingdings, by the Unicode characters they look like."""
    return text if text.isascii() else _IN_FONT.sub(lambda match: _character(ord(match[0]), font or "Symbol"), text)


def _character(code: int, font: str) -> str:
    table = _FONTS.get(font.lower())
    if table is None and code >> 8 != 0xF0:
        return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    if code & 0xFF == 0x20:
        return " "
    if (character := (table or {}).get(code & 0xFF, "")) == "":
        reader_notes.add("a symbol in an unknown font was left out")
    return character


M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_NEEDS_NO_PARENTHESES = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+|\d+(?:[.,]\d+)?|\S?|√?\([^()]*\)")
_TEMPLATES = {  # a field in capitals, such as {NUM}, gets parentheses if it has several terms
    "f": "{NUM}/{DEN}", "sSub": "{E}{limits}", "sSup": "{E}{limits}", "sSubSup": "{E}{limits}", "sPre": "{limits}{e}",
    "limLow": "{e}_{LIM}", "limUpp": "{e}^{LIM}", "rad": "{deg}√({e})", "nary": "{chr}{limits} {e}",
    "func": "{fName} {e}",
}  # fmt: skip
_SEPARATORS = {"mr": ", ", "m": "; ", "eqArr": "; "}  # matrix cells, matrix rows, equation lines


def equation_text(node: Any) -> str:
    """Return the text of an equation or of one of its elements, such as `(a+b)/2` for a fraction."""
    name = node.tag.removeprefix(M)
    if node.tag in DELETED or name.endswith("Pr"):
        return ""
    if name in ("t", f"{W}t"):
        return node.text or ""
    if name == f"{W}sym":
        return text_of_symbol(node)
    texts = [(_local_name(child), equation_text(child)) for child in node.iterchildren(tag=etree.Element)]
    cells = [text.strip() for kind, text in texts if kind in ("e", "mr")]
    properties = {_local_name(entry): str(entry.get(f"{M}val", "")) for entry in node.iterfind(f"{node.tag}Pr/*")}
    if name == "d":
        separator = properties.get("sepChr", "|")
        return f"{properties.get('begChr', '(')}{separator.join(cells)}{properties.get('endChr', ')')}"
    if name in _SEPARATORS:
        return _SEPARATORS[name].join(cells)
    if name not in _TEMPLATES:
        return "".join(text for _, text in texts)
    pieces = defaultdict(str, {kind: text.strip() for kind, text in texts})
    for kind, text in list(pieces.items()):
        pieces[kind.upper()] = text if _NEEDS_NO_PARENTHESES.fullmatch(text) else f"({text})"
    pieces["chr"] = properties.get("chr", "∫")
    pieces["limits"] = "".join(f"{sign}{pieces[kind]}" for sign, kind in (("_", "SUB"), ("^", "SUP")) if pieces[kind])
    return _TEMPLATES[name].format_map(pieces)


A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_D = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_V = "{urn:schemas-microsoft-com:vml}"
# descriptions without information, such as "Picture 3" or "logo.png"
_NAME_ONLY = re.compile(r"\S*|[^\W\d_]+(?: [^\W\d_]+)? ?\d*|.*\.(?:png|jpe?g|gif|bmp|tiff?|svg|emf|wmf)", re.I | re.S)


def visible_children(node: Any) -> Iterator[Any]:
    """Yield the undeleted children of an element. Replace `AlternateContent` by its first alternative."""
    for child in node.iterchildren(tag=etree.Element):
        if child.tag != f"{_MC}AlternateContent":
            if child.tag not in DELETED:
                yield child
            continue
        choices = list(child.iterchildren(f"{_MC}Choice", f"{_MC}Fallback"))
        yield from visible_children(choices[0] if choices else child)


def drawing_texts(element: Any, package: Package, relations: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the texts of an element with a tag in `DRAWN`: chart titles, diagram labels or a picture's description."""
    kind = _local_name(element)
    if kind == "textpath":
        yield element.get("string", "")
    elif kind in ("OLEObject", "oleObj"):
        reader_notes.add("an embedded object was not read")
    elif kind == "chart":
        _, name = relations.get(element.get(f"{R}id", ""), ("", ""))
        titles = package.xml(name).iter(f"{_C}title") if element.tag.startswith(_C) and name in package else ()
        yield from filter(None, map(_drawing_words, titles))
        reader_notes.add("the figures of a chart were not read")
    elif kind == "relIds":
        _, name = relations.get(element.get(f"{R}dm", ""), ("", ""))
        if name not in package:
            reader_notes.add("a diagram was not read")
            return
        for point in package.xml(name).iter(f"{_D}pt"):
            if point.get("type", "node") in ("node", "asst") and (text := _drawing_words(point)):
                yield text
    elif element.get("hidden") not in ("1", "true"):
        around = element.getparent()
        # the alternative text of a VML picture is in its parent shape
        description = around.get("alt", "") if kind == "imagedata" else element.get("descr", "")
        description = " ".join(description.split())
        if description and not _NAME_ONLY.fullmatch(description):
            yield description
        elif kind == "imagedata" or _local_name(around) == "nvPicPr" or next(around.iter(_PICTURE), None) is not None:
            reader_notes.add("a picture without a description was left out")


def _local_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2] if element is not None else ""


def _drawing_words(element: Any) -> str:
    paragraphs = ("".join(text.text or "" for text in lines.iter(f"{A}t")) for lines in element.iter(f"{A}p"))
    return " ".join(" ".join(paragraphs).split())


_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic"
_WORD = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
DRAWN = frozenset(
    {f"{_WORD}docPr", f"{P}cNvPr", f"{P}oleObj", f"{_C}chart", f"{_D}relIds"}
    | {f"{_V}textpath", f"{_V}imagedata", "{urn:schemas-microsoft-com:office:office}OLEObject"}
    | {"{http://schemas.microsoft.com/office/drawing/2014/chartex}chart"}
)

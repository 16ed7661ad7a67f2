"""Read documents that are a zip of XML files, such as DOCX, with caps and without entities; EPUB is read here."""

import io
import posixpath
import re
import zipfile
from typing import Any
from urllib.parse import unquote

from lxml import etree

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.container import DAMAGED
from indexer.read.extraction import first_day, language_of
from indexer.read.html.main_content import extract
from indexer.records import Declared, Extraction, Section

OLE = b"\xd0\xcf\x11\xe0"  # first bytes of Office's files before 2007, and of what it encrypts
_ENCRYPTED = ("EncryptedPackage", "EncryptedSummary")  # streams
_LOCKED = re.compile(  # the record of a password, after the one that begins an old workbook
    rb"\x09\x08(?:\x08\x00.{8}|\x10\x00.{16})(?:\x86\x00\x00\x00)?\x2f\x00", re.DOTALL
)
_MOST_PARTS = 20_000
_LONGEST_PART = 40_000_000  # bytes, decompressed
_LONGEST_TOTAL = 200_000_000  # bytes of the parts that are read
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")  # names of the strict form of Office's formats
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


def refuse_ole(body: bytes, *, is_workbook: bool = False) -> None:
    """Raise ParseError for an OLE file that is encrypted; for any other too, unless old workbooks are read."""
    if any(name.encode("utf-16-le") in body for name in _ENCRYPTED) or (is_workbook and _LOCKED.search(body)):
        raise ParseError("encrypted: it opens only with a password")
    if not is_workbook:
        raise ParseError("in a format of Office older than 2007, which is not read")


class Package:
    """The parts of one document, by name."""

    def __init__(self, body: bytes) -> None:
        """Open a document; raises ParseError if it is no zip, or too large a one."""
        if body.startswith(OLE):
            refuse_ole(body)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(body))
        except DAMAGED as error:
            raise ParseError("truncated or damaged: it is not a readable zip file") from error
        self._names = {info.filename: info for info in self._zip.infolist()}
        self._read = 0
        if len(self._names) > _MOST_PARTS:
            raise ParseError(f"more than {_MOST_PARTS:,} parts")

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """Return the bytes of one part; raises ParseError if it is missing, damaged, encrypted or too large."""
        info = self._names.get(name)
        if info is None:
            raise ParseError(f"truncated or damaged: it has no part {name[:100]}")
        if info.flag_bits & 1:
            raise ParseError("encrypted")
        try:
            with self._zip.open(info) as file:
                data = file.read(_LONGEST_PART + 1)
        except DAMAGED as error:
            raise ParseError(f"truncated or damaged: its part {name[:100]} cannot be read") from error
        self._read += len(data)
        if len(data) > _LONGEST_PART or self._read > _LONGEST_TOTAL:
            raise ParseError(f"more than {_LONGEST_PART:,} bytes in a part, or {_LONGEST_TOTAL:,} in all")
        return data

    def check_sizes(self) -> None:
        """Decompress every part and drop it; raises ParseError if they are damaged or larger than they may be."""
        for name in self._names:
            self.read(name)

    def xml(self, name: str) -> Any:
        """Return the root element of one part."""
        data = self.read(name)
        return parse_xml(_STRICT.sub(_TRANSITIONAL, data) if _STRICT.search(data) else data)

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return, by id, the kind and the name of every part of the package that a part refers to."""
        folder, _, file = name.rpartition("/")
        listing = f"{folder}/_rels/{file}.rels".lstrip("/")
        if listing not in self:
            return {}
        return {
            item.get("Id", ""): (item.get("Type", "").rpartition("/")[2], resolve(name, item.get("Target", "")))
            for item in self.xml(listing).iter(_RELATIONS)
            if item.get("TargetMode") != "External"
        }


def parse_xml(data: bytes) -> Any:
    """Return the root element of an XML text; raises ParseError for one with a document type, which none needs."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"XML that cannot be read: {' '.join(str(error).split())[:100]}") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise ParseError("XML with a document type declaration, which is not allowed")
    return root


def resolve(base: str, target: str) -> str:
    """Return the name of the part that `target` means in the part `base`; it cannot lead out of the package."""
    path = unquote(target.partition("#")[0])
    joined = path if path.startswith("/") else posixpath.join(posixpath.dirname(base), path)
    return posixpath.normpath(f"/{joined}").lstrip("/")


def main_part(package: Package, usual: str) -> str:
    """Return the name of the part that the text begins in."""
    named = [name for kind, name in package.relations("").values() if kind == "officeDocument"]
    return next((name for name in named if name in package), usual)


_DC, _TERMS = "{http://purl.org/dc/elements/1.1/}", "{http://purl.org/dc/terms/}"


def properties(package: Package) -> tuple[str | None, Declared]:
    """Return the title, and language and day of the last change."""
    try:
        root = package.xml("meta.xml" if "meta.xml" in package else "docProps/core.xml")
    except ParseError:  # the text can be read without
        return None, Declared()
    texts = {entry.tag: entry.text for entry in root.iter(f"{_DC}*", f"{_TERMS}*")}
    days = [texts.get(f"{_TERMS}modified"), texts.get(f"{_TERMS}created"), texts.get(f"{_DC}date")]
    return texts.get(f"{_DC}title"), Declared(language_of(texts.get(f"{_DC}language")), first_day(days))


_ROOTFILE = "{urn:oasis:names:tc:opendocument:xmlns:container}rootfile"
_OPF = "{http://www.idpf.org/2007/opf}"
_MODIFIED = f"{_OPF}meta[@property='dcterms:modified']"
_REFERENCE = re.compile(r"(?=<a\b[^<>]*\bnoteref\b|<sup\b[^<>]*><a\b)")  # number of a note, right behind a word
_CHAPTER = ("application/xhtml+xml", "text/html")


def read_epub(body: bytes, charset: str | None) -> Extraction:
    """Read an EPUB file; raises ParseError."""
    package = Package(body)
    if any(mark in package for mark in ("META-INF/rights.xml", "META-INF/license.lcpl")):
        raise ParseError("encrypted: it is protected against copying")
    rootfile = next(package.xml("META-INF/container.xml").iter(_ROOTFILE), None)
    name = resolve("", rootfile.get("full-path", "") if rootfile is not None else "")
    root = package.xml(name)
    items = {
        item.get("id"): resolve(name, item.get("href", ""))
        for item in root.iter(f"{_OPF}item")
        if item.get("media-type") in _CHAPTER and "nav" not in item.get("properties", "").split()
    }
    sections: list[Section] = []
    spine = dict.fromkeys(entry.get("idref") for entry in root.iter(f"{_OPF}itemref"))  # each chapter once
    for chapter in (items[entry] for entry in spine if entry in items):
        if chapter not in package:
            continue
        found = extract(_REFERENCE.sub(" ", decode(package.read(chapter), None, markup=True)))
        sections += [
            Section(section.path or ((found.title,) if found.title else ()), None, section.text)
            for section in found.sections
        ]
    head = root.find(f"{_OPF}metadata")
    if head is None:
        return Extraction(None, tuple(sections))
    days = [head.findtext(_MODIFIED), head.findtext(f"{_DC}date")]
    declared = Declared(language_of(head.findtext(f"{_DC}language")), first_day(days))
    return Extraction(head.findtext(f"{_DC}title"), tuple(sections), declared)

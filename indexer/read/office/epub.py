"""EPUB to content: its chapters in reading order, each read as the HTML it is."""

import re

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import first_day, language_of
from indexer.read.html.main_content import extract
from indexer.read.office.zipped import Package, resolve
from indexer.records import Declared, Extraction, Section

_ROOTFILE = "{urn:oasis:names:tc:opendocument:xmlns:container}rootfile"
_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_MODIFIED = f"{_OPF}meta[@property='dcterms:modified']"
_REFERENCE = re.compile(r"(?=<a\b[^<>]*\bnoteref\b|<sup\b[^<>]*><a\b)")  # number of a note, right behind a word
_CHAPTER = ("application/xhtml+xml", "text/html")


def read(body: bytes, charset: str | None) -> Extraction:
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

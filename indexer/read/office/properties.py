"""The common ground of Office's formats: which part is the main one, and what the document says about itself."""

from indexer.errors import ParseError
from indexer.read.metadata import Declared, first_day, language_of
from indexer.read.office.zipped import Package

_CORE = "docProps/core.xml"
_DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"


def main_part(package: Package, usual: str) -> str:
    """Name of the part that the text begins in."""
    named = [name for kind, name in package.relations("").values() if kind == "officeDocument"]
    return next((name for name in named if name in package), usual)


def core_properties(package: Package) -> tuple[str | None, Declared]:
    """Return the title, and language and day of the last change."""
    if _CORE not in package:
        return None, Declared()
    try:
        root = package.xml(_CORE)
    except ParseError:  # the text can be read without
        return None, Declared()
    day = first_day([root.findtext(f"{_TERMS}modified"), root.findtext(f"{_TERMS}created")])
    return root.findtext(f"{_DC}title"), Declared(language_of(root.findtext(f"{_DC}language")), day)

"""Forms of a page, with what a browser would send of each untouched; runs in the process that reads documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lxml import etree

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.html.html_tree import MOST_ELEMENTS

_MOST, _MOST_FIELDS = 50, 500  # forms, and fields of them all
_LONGEST = 20_000  # characters of a value: pages keep their whole state in some
_UNTOUCHED = {"button", "file", "reset", "image"}  # types of which nothing is sent
_CHOSEN = {"checkbox", "radio"}


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return the forms of an HTML page, JSON-ready; `argument` is its charset.

    Each has `action`, `method`, and `fields`: a list of [name, value, type].

    Raises:
        ParseError: the markup cannot be read, or has too much in it.
    """
    tags = _Tags()
    try:
        etree.fromstring(
            decode(body, argument, markup=True), etree.HTMLParser(target=tags, huge_tree=True, no_network=True)
        )
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error
    return {"base": tags.base, "forms": tags.forms}


@dataclass(slots=True)
class _Tags:
    """Receives the parser's events."""

    elements: int = 0
    fields: int = 0
    base: str | None = None
    forms: list[dict[str, Any]] = field(default_factory=list)
    is_open: bool = False
    submits: bool = False  # whether the form that is open has a button already

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take note of one opening tag."""
        self.elements += 1
        if self.elements > MOST_ELEMENTS:
            raise ParseError(f"more than {MOST_ELEMENTS:,} elements")
        if tag == "base":
            self.base = self.base or attributes.get("href")
        elif tag == "form" and len(self.forms) < _MOST:
            method = attributes.get("method", "get").strip().lower()
            self.forms.append({"action": attributes.get("action", ""), "method": method, "fields": []})
            self.is_open, self.submits = True, False
        elif tag in ("input", "button") and self.is_open:
            self._field(tag, attributes)

    def end(self, tag: str) -> None:
        """Take note of one closing tag."""
        if tag == "form":
            self.is_open = False

    def close(self) -> Self:
        """End of the page."""
        return self

    def _field(self, tag: str, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type", "submit" if tag == "button" else "text").strip().lower()
        name, value = attributes.get("name", ""), attributes.get("value", "")
        if kind in _UNTOUCHED or not name or len(value) > _LONGEST or self.fields >= _MOST_FIELDS:
            return
        if kind in _CHOSEN:
            if "checked" not in attributes:
                return
            value = value or "on"
        if kind == "submit":  # the first is what the Enter key presses
            if self.submits:
                return
            self.submits = True
        self.fields += 1
        self.forms[-1]["fields"].append([name, value, kind])

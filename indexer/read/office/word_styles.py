"""Styles and numbering of a DOCX file: which paragraphs are headings, what is hidden, what stands before list items."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_BODY = 9  # outline level of text that is no heading
_HEADING = re.compile(  # the name or id of a style, as programs write it in the language of their user
    "(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|otsikko|nagłówek|заголовок|nadpis|naslov|címsor|"
    "başlık|επικεφαλίδα|标题|標題|見出し|제목) ?([1-9])"
)
_MOST_LEVELS = 9  # of a list
_ROMAN = tuple(zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
                   "m cm d cd c xc l xl x ix v iv i".split(), strict=True))  # fmt: skip


def value_of(element: Any) -> str:
    """Return the `w:val` of an element; empty without one."""
    return element.get(f"{W}val", "") if element is not None else ""


def switch(element: Any) -> bool | None:
    """Return whether a property is on, or None where it is not stated."""
    return None if element is None else element.get(f"{W}val", "true") not in ("0", "false", "off", "none")


def whole_number(text: str | None, default: int) -> int:
    """Return a number of at most six digits, or the default."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 6 else default


@dataclass(frozen=True, slots=True)
class _Style:
    based_on: str = ""
    level: int | None = None  # outline level from 0; `_BODY` for none
    hidden: bool | None = None
    numbering: Any = None  # its w:numPr


class Styles:
    """The styles of a document, with what they inherit."""

    def __init__(self, root: Any) -> None:
        """Read the root of the part `styles.xml`, if there is one."""
        self._styles = {
            style.get(f"{W}styleId", ""): _Style(
                value_of(style.find(f"{W}basedOn")),
                _level(style),
                switch(style.find(f"{W}rPr/{W}vanish")),
                style.find(f"{W}pPr/{W}numPr"),
            )
            for style in (root.iter(f"{W}style") if root is not None else ())
        }

    def heading_level(self, properties: Any) -> int | None:
        """Return the level of the heading with these properties, from 1 to 6, or None for other paragraphs."""
        outline = value_of(properties.find(f"{W}outlineLvl"))
        level = whole_number(outline, _BODY) if outline else self._inherited(properties, "level", _BODY)
        return min(level + 1, 6) if level < _BODY else None

    def hides(self, properties: Any) -> bool:
        """Return whether the style of a paragraph with these properties hides its text."""
        return bool(self._inherited(properties, "hidden"))

    def is_hidden(self, run: Any, default: bool) -> bool:
        """Return whether the text of a run is not shown; `default` is for those that do not say so themselves."""
        properties = run.find(f"{W}rPr")
        if properties is None:
            return default
        hidden = switch(properties.find(f"{W}vanish"))
        return bool(self._inherited(properties, "hidden", default, "rStyle") if hidden is None else hidden)

    def numbering(self, properties: Any) -> tuple[Any, bool]:
        """Return the `w:numPr` for the properties of a paragraph, and whether a style has it; None for no list item."""
        direct = properties.find(f"{W}numPr")
        return (direct, False) if direct is not None else (self._inherited(properties, "numbering"), True)

    def style_of(self, properties: Any) -> str:
        """Return the id of the style of a paragraph."""
        return value_of(properties.find(f"{W}pStyle"))

    def _inherited(self, properties: Any, name: str, default: Any = None, kind: str = "pStyle") -> Any:
        """Return what the style of a paragraph or run says, or the first it is based on that says it."""
        identity = value_of(properties.find(W + kind))
        for _ in range(30):
            style = self._styles.get(identity)
            if style is None:
                break
            if (value := getattr(style, name)) is not None:
                return value
            identity = style.based_on
        return default


def _level(style: Any) -> int | None:
    if outline := value_of(style.find(f"{W}pPr/{W}outlineLvl")):
        return whole_number(outline, _BODY)
    if style.get(f"{W}type", "paragraph") != "paragraph":
        return None
    names = [value_of(style.find(f"{W}name")).lower(), style.get(f"{W}styleId", "").lower()]
    if "title" in names:
        return 0
    return next((int(found[1]) - 1 for name in names if (found := _HEADING.fullmatch(name))), None)


@dataclass(slots=True)
class _Level:
    start: int = 1
    form: str = "decimal"
    text: str = ""
    style: str = ""


class Numbering:
    """The lists of a document, which count as its paragraphs are read in order."""

    def __init__(self, root: Any, styles: Styles) -> None:
        """Read the root of the part `numbering.xml`, if there is one."""
        self._styles = styles
        self._levels: dict[str, dict[int, _Level]] = {}  # by list
        self._counts: defaultdict[str, list[int | None]] = defaultdict(lambda: [None] * _MOST_LEVELS)
        self._restarts: dict[str, dict[int, int]] = {}  # by list as used: levels that start again, and where
        self._used: dict[str, str] = {}  # list as used: list
        linked: dict[str, str] = {}  # style: list that it defines
        links: dict[str, str] = {}  # list: style that holds its levels instead
        for abstract in root.iterchildren(f"{W}abstractNum") if root is not None else ():
            name = abstract.get(f"{W}abstractNumId", "")
            linked[value_of(abstract.find(f"{W}styleLink"))] = name
            links[name] = value_of(abstract.find(f"{W}numStyleLink"))
            levels = {whole_number(level.get(f"{W}ilvl"), _MOST_LEVELS): level for level in abstract.iter(f"{W}lvl")}
            self._levels[name] = {
                number: _Level(
                    whole_number(value_of(level.find(f"{W}start")), 1),
                    value_of(level.find(f"{W}numFmt")) or "decimal",
                    value_of(level.find(f"{W}lvlText"))[:100],
                    value_of(level.find(f"{W}pStyle")),
                )
                for number, level in levels.items()
                if number < _MOST_LEVELS
            }
        for used in root.iterchildren(f"{W}num") if root is not None else ():
            identity, name = used.get(f"{W}numId", ""), value_of(used.find(f"{W}abstractNumId"))
            self._used[identity] = linked.get(links[name], name) if links.get(name) else name
            self._restarts[identity] = {
                whole_number(change.get(f"{W}ilvl"), 0): whole_number(value_of(change.find(f"{W}startOverride")), 1)
                for change in used.iterchildren(f"{W}lvlOverride")
                if change.find(f"{W}startOverride") is not None
            }

    def label(self, properties: Any) -> str | None:
        """Count the list item with these properties, and return what stands before it.

        Returns: empty for a bullet; None for what is no list item.
        """
        used, is_styled = self._styles.numbering(properties)
        identity = value_of(used.find(f"{W}numId")) if used is not None else "0"
        if identity == "0":  # a list is turned off
            return None
        name = self._used.get(identity, "")
        levels = self._levels.get(name, {})
        style = self._styles.style_of(properties) if is_styled else ""
        number = next((number for number, level in levels.items() if style and level.style == style), 0)
        if stated := value_of(used.find(f"{W}ilvl")):
            number = whole_number(stated, number)
        number = min(number, _MOST_LEVELS - 1)
        if number not in levels or levels[number].form == "bullet":
            return ""
        counts = self._counts[name]
        restart, before = self._restarts[identity].pop(number, None), counts[number]
        start = levels[number].start if restart is None else restart
        counts[number] = start if restart is not None or before is None else before + 1
        counts[number + 1 :] = [None] * (_MOST_LEVELS - number - 1)

        def counter(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            other, count = levels.get(place, _Level()), counts[place]
            return _written(other.start if count is None else count, other.form)

        return re.sub("%([1-9])", counter, levels[number].text)


def _written(count: int, form: str) -> str:
    """Return a number in one of Word's forms; one of a form that is not known is written in digits."""
    if form == "none":
        return ""
    if form in ("lowerLetter", "upperLetter") and 0 < count <= 780:
        letters = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letters.upper() if form == "upperLetter" else letters
    if form in ("lowerRoman", "upperRoman") and 0 < count < 4000:
        digits = ""
        for size, digit in _ROMAN:
            digits, count = digits + digit * (count // size), count % size
        return digits.upper() if form == "upperRoman" else digits
    return f"{count:02}" if form == "decimalZero" else str(count)

"""Code in a page, exactly as a browser shows it: indentation, empty lines and all."""

import re

from indexer.decoding import visible
from indexer.read.extraction import clean
from indexer.read.html.html_tree import Element
from indexer.read.html.noise import classes, has_noise_class, holds, is_noise, is_permalink

_PREFORMATTED = frozenset({"pre", "listing", "xmp"})
MAY_BE_CODE = _PREFORMATTED | {"div", "code"}  # names of elements that are worth to be asked about
_LINES = frozenset({"div", "p", "li", "tr", "ol", "ul", "table"})  # elements that begin and end a line
_CELLS = frozenset({"td", "th"})
_PRE_STYLE = re.compile(r"white-space\s*:\s*(?:pre(?:\s|;|$|-wrap)|break-spaces)", re.IGNORECASE)
_ONLY_CLASS = {"class"}  # attributes of an element that only colours its text
_IN_SIGNATURES = frozenset({"span", "a", "wbr", "b", "i", "em", "strong"})
_SIGNATURE = 2_000  # characters of a span
_BARE = 0.3  # of what is in spans: as many characters may be outside of them
_NOT_IN_LINES = frozenset("p pre ul ol dl table section h1 h2 h3 h4 h5 h6".split())
_SIGN = 10  # characters
_PILCROWS = frozenset("¶ § 🔗".split())
_LINE = "line"  # class of the lines that Doxygen writes


def is_code(tag: Element) -> bool:
    """Return whether an element's white space is shown as it is."""
    if tag.name in _PREFORMATTED:
        return True
    if "style" in tag.attributes and tag.name in ("div", "code") and _PRE_STYLE.search(tag.attributes["style"]):
        return True
    return tag.name == "div" and (_is_fragment(tag) or _is_signature(tag))


def code_of(tag: Element) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return a block of code, without empty lines around it, and the places of the ids in it.

    The block is empty if it only numbers the lines of another.
    """
    pieces: list[str] = []
    ids: list[tuple[int, str]] = []  # place of the piece that follows an id, the id
    numbers: list[tuple[int, int]] = []  # place of a piece that begins a line and is only a number, the number
    loose = tag.name != "pre" and _is_fragment(tag)
    # what else it has are explanations of names, which a pointer opens
    lines_only = [node for node in tag.children if isinstance(node, Element) and _is_line(node)] if loose else None
    todo: list[Element | str | tuple[int]] = list(reversed(lines_only or tag.children))
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if isinstance(node, tuple):
            is_empty = len(pieces) == node[0]
            if loose if is_empty else not pieces[-1].endswith("\n"):
                pieces.append("\n")
            continue
        if node.name == "br":
            pieces.append("\n")
            continue
        is_coloured = node.name == "span" and (not node.attributes or node.attributes.keys() == _ONLY_CLASS)
        if has_noise_class(node) if is_coloured else (is_noise(node) and not _is_sign(node)):
            continue
        if not is_coloured and (anchor := node.anchor) is not None:
            ids.append((len(pieces), anchor))
        begins = not pieces or pieces[-1][-1:] == "\n"
        if begins and (number := node.first_text().strip()).isdecimal() and len(node.children) == 1:
            numbers.append((len(pieces), int(number)))
        if node.name in _LINES:
            if not begins:
                pieces.append("\n")
            todo.append((len(pieces),))
        todo += reversed(node.children)
    lines = sum(piece.count("\n") for piece in pieces) if len(numbers) > 1 else 0
    if lines <= len(numbers) + 1 and _counts([number for _, number in numbers]):
        for place, _ in numbers:
            pieces[place] = ""
    whole = "".join(pieces)
    text = clean(whole)
    if _numbers_lines(tag, text):
        return "", ()
    marks = _marks(pieces, ids, whole, text) if ids else ()
    return text.replace("\u00a0", " ") if loose else text, marks


def _is_sign(tag: Element) -> bool:
    """Whether a link of signs is code, and not a link to the place where it stands."""
    text = tag.short_text(_SIGN) if tag.name == "a" and is_permalink(tag) else None
    return bool(text) and text is not None and text.strip() not in _PILCROWS


def _marks(pieces: list[str], ids: list[tuple[int, str]], whole: str, text: str) -> tuple[tuple[int, str], ...]:
    """Return the ids before pieces, with their places in the text, from which empty lines at the ends are gone."""
    visible_whole = visible(whole)
    begin = visible_whole.find(text)
    length = place = 0
    found: dict[int, str] = {}  # of several at one place, the last
    for number, anchor in ids:
        length += len(visible("".join(pieces[place:number])))
        place = number
        at = max(0, length - begin)
        if at < len(text):
            found[at] = anchor
    return tuple(found.items())


def _is_fragment(tag: Element) -> bool:
    """Whether an element begins with lines of code, each an element of its own, as Doxygen writes them."""
    first = next((child for child in tag.children if isinstance(child, Element)), None)
    return (
        first is not None
        and _is_line(first)
        and not holds(first, _NOT_IN_LINES)
        and all(isinstance(child, Element) or not child.strip() for child in tag.children)
    )


def _is_line(tag: Element) -> bool:
    return tag.name == "div" and _LINE in classes(tag)


def _is_signature(tag: Element) -> bool:
    """Whether nearly all of an element's words are in spans that colour them, with white space that is meant.

    It is: with spaces that do not break, or lines, and none of the indentation of markup.
    """
    first = tag.children[0] if tag.children else ""
    if not isinstance(first, Element) or first.name != "span" or first.attributes.keys() != _ONLY_CLASS:
        return False
    coloured = bare = 0
    spaces = False
    for node in tag.children:
        if isinstance(node, str):
            bare += len(node.strip())
            spaces = spaces or "\u00a0" in node or "\n" in node
        elif node.name == "span" and node.attributes.keys() == _ONLY_CLASS:
            text = node.short_text(_SIGNATURE)
            if text is None or any(below.name not in _IN_SIGNATURES for below in node.elements()):
                return False
            coloured += len(text.strip())
        elif node.name not in _IN_SIGNATURES:
            return False
    last = tag.children[-1]
    return spaces and bare <= _BARE * coloured and not (isinstance(last, str) and last.endswith("\n"))


def _counts(numbers: list[int]) -> bool:
    return len(numbers) > 1 and all(number == numbers[0] + place for place, number in enumerate(numbers))


def _numbers_lines(tag: Element, text: str) -> bool:
    """Whether a block stands in a table beside another, and only numbers its lines."""
    lines = text.split()
    if (
        not lines
        or not all(line.isdecimal() for line in lines)
        or not (_counts(list(map(int, lines))) or len(lines) == 1)
    ):
        return False
    cell = next((parent for parent in tag.parents if parent.name in _CELLS), None)
    row = cell.parent if cell is not None else None
    beside = row.children if row is not None else ()
    return any(
        other.name == "pre"
        for node in beside
        if isinstance(node, Element) and node is not cell
        for other in node.elements()
    )

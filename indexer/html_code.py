"""Code in a page, exactly as a browser shows it: indentation, empty lines and all."""

import re

from indexer.decoding import visible
from indexer.html_noise import classes, has_noise_class, is_noise
from indexer.html_tree import Element

MAY_BE_CODE = frozenset({"pre", "div", "code"})  # names of elements that are worth to be asked about
_LINES = frozenset({"div", "p", "li", "tr", "ol", "ul", "table"})  # elements that begin and end a line
_CELLS = frozenset({"td", "th"})
_PRE_STYLE = re.compile(r"white-space\s*:\s*pre(?:\s|;|$|-wrap)", re.IGNORECASE)
_EMPTY_ENDS = re.compile(r"\A(?:[^\S\n]*\n)+|\s+\Z")
_ONLY_CLASS = {"class"}  # attributes of an element that only colours its text
_LINE = "line"  # class of the lines that Doxygen writes


def is_code(tag: Element) -> bool:
    """Whether an element's white space is shown as it is."""
    if tag.name == "pre":
        return True
    if "style" in tag.attributes and tag.name in ("div", "code") and _PRE_STYLE.search(tag.attributes["style"]):
        return True
    return tag.name == "div" and _is_fragment(tag)


def code_of(tag: Element) -> str:
    """Text of a block of code, without empty lines around it; empty if it only numbers the lines of another."""
    pieces: list[str] = []
    numbers: list[tuple[int, int]] = []  # place of a piece that begins a line and is only a number, the number
    loose = tag.name != "pre" and _is_fragment(tag)
    todo: list[Element | str | tuple[int]] = list(reversed(tag.children))
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if isinstance(node, tuple):
            if len(pieces) > node[0] and not pieces[-1].endswith("\n"):
                pieces.append("\n")
            continue
        if node.name == "br":
            pieces.append("\n")
            continue
        is_coloured = node.name == "span" and (not node.attributes or node.attributes.keys() == _ONLY_CLASS)
        if has_noise_class(node) if is_coloured else is_noise(node):
            continue
        begins = not pieces or pieces[-1][-1:] == "\n"
        if begins and (number := node.first_text().strip()).isdecimal() and len(node.children) == 1:
            numbers.append((len(pieces), int(number)))
        if node.name in _LINES:
            if not begins:
                pieces.append("\n")
            todo.append((len(pieces),))
        below = [child for child in node.children if not _is_gap(node, child)] if loose else node.children
        todo += reversed(below)
    lines = sum(piece.count("\n") for piece in pieces) if len(numbers) > 1 else 0
    if lines <= len(numbers) + 1 and _counts([number for _, number in numbers]):
        for place, _ in numbers:
            pieces[place] = ""
    text = visible("".join(pieces))
    if loose:
        text = text.replace("\u00a0", " ")
    text = _EMPTY_ENDS.sub("", text)
    return "" if _numbers_lines(tag, text) else text


def _is_fragment(tag: Element) -> bool:
    """Whether an element consists of lines of code, each an element of its own, as Doxygen writes them."""
    has_lines = False
    for child in tag.children:
        if isinstance(child, Element):
            if child.name != "div" or _LINE not in classes(child):
                return False
            has_lines = True
    return has_lines


def _is_gap(parent: Element, node: Element | str) -> bool:
    return isinstance(node, str) and not node.strip(" \t\n") and parent.name in ("div", "table", "tr")


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

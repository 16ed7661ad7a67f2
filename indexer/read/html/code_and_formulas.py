"""Extract code blocks with their white space, formulas as TeX, and the alternative texts of images."""

import re
from functools import lru_cache

from indexer.read.extraction import clean
from indexer.read.html.html_tree import Element, HtmlTree
from indexer.read.html.noise import PERMALINKS, has_noise_class, is_folded, is_noise, is_permalink
from indexer.text.cleaning import fold

_PREFORMATTED = frozenset({"pre", "listing", "xmp"})
MAY_BE_CODE = _PREFORMATTED | {"div"}
_LINE_ELEMENTS = frozenset({"div", "p", "li", "tr", "ol", "ul", "table"})
_TOKEN_ATTRIBUTES = {"class"}
_NOT_IN_LINES = frozenset("p pre ul ol dl table section h1 h2 h3 h4 h5 h6".split())
_PILCROWS = PERMALINKS - {"#"}  # "#" may be an operator in code


def is_code(tag: Element) -> bool:
    """Return whether an element is a block of code."""
    return tag.name in _PREFORMATTED or _is_fragment(tag)


def code_of(tag: Element) -> str:
    """Return the text of a block of code, or "" if the block contains only line numbers."""
    pieces: list[str] = []
    is_fragment = tag.name != "pre" and _is_fragment(tag)
    # in a Doxygen fragment, children that are not lines of code are tooltips
    lines_only = [node for node in tag.tags if _is_line(node)] if is_fragment else None
    todo: list[Element | str | tuple[int]] = list(reversed(lines_only or tag.children))
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if isinstance(node, tuple):
            is_empty = len(pieces) == node[0]
            if is_fragment if is_empty else not pieces[-1].endswith("\n"):
                pieces.append("\n")
            continue
        if node.name == "br":
            pieces.append("\n")
            continue
        is_token = node.name == "span" and node.attributes.keys() <= _TOKEN_ATTRIBUTES
        if has_noise_class(node) if is_token else (is_noise(node) and not _is_operator(node)):
            continue
        if node.name in _LINE_ELEMENTS:
            if pieces and pieces[-1][-1:] != "\n":
                pieces.append("\n")
            todo.append((len(pieces),))
        todo += reversed(node.children)
    text = clean("".join(pieces))
    if _numbers_lines(tag, text.split()):
        return ""
    return text.replace("\u00a0", " ") if is_fragment else text


def _is_operator(tag: Element) -> bool:
    text = tag.short_text(10) if tag.name == "a" and is_permalink(tag) else None
    return bool(text and text.strip() not in _PILCROWS)


def _is_fragment(tag: Element) -> bool:
    """Return whether an element is a code block of Doxygen, which has one child element per line of code."""
    first = next((child for child in tag.children if isinstance(child, Element)), None)
    if first is None or not _is_line(first) or first.contains(_NOT_IN_LINES):
        return False
    return all(isinstance(child, Element) or not child.strip() for child in tag.children)


def _is_line(tag: Element) -> bool:
    return tag.name == "div" and "line" in tag.classes


def _numbers_lines(tag: Element, words: list[str]) -> bool:
    """Return whether the words of a block are line numbers, and another cell of the same table row contains code."""
    first = int(words[0]) if words and words[0].isdecimal() and len(words[0]) < 9 else -1
    cell = next((parent for parent in tag.parents() if parent.name in ("td", "th")), None) if first >= 0 else None
    if cell is None or cell.parent is None or words != [str(first + offset) for offset in range(len(words))]:
        return False
    return any(other.name == "pre" for node in cell.parent.tags if node is not cell for other in node.elements())


_LABEL_ATTRIBUTES = ("data-latex", "aria-label", "alttext")
_FORMULAS = frozenset({"math", "script", "mjx-container"})
_ANNOTATIONS = frozenset({"annotation", "annotation-xml", "mphantom"})
_DISPLAYSTYLE = re.compile(r"\{\\(?:display|text)style (.*)\}", re.DOTALL)


def replace_formulas(tree: HtmlTree, markup: str) -> None:
    """Replace every formula by its TeX source on one line."""
    if not any(name in markup for name in ("math", "MathJax", "mjx-", "katex")):
        return
    rendered: set[int] = set()
    for element in tree.elements:
        is_formula = element.name in _FORMULAS or "class" in element.attributes
        text = _formula(element) if is_formula else None
        if text is None:
            continue
        if element.name != "script":
            rendered.add(id(element))
        elif element.parent is not None and len(element.parent.children) <= 500:
            siblings = element.parent.children  # MathJax 2 inserts the rendered formula before its script
            index = next(index for index, node in enumerate(siblings) if node is element)
            for node in reversed(siblings[:index]):
                if isinstance(node, Element) and id(node) in rendered:
                    node.fill([])
                elif isinstance(node, Element) or not node.isspace():
                    break
        _unhide(element, text)
        is_block = element.get("display") in ("block", "true") or "mode=display" in element.get("type")
        element.name, element.attributes = "div" if is_block else "span", {}
        element.fill([text])


def _formula(element: Element) -> str | None:
    """Return the TeX of a formula, or None if the element is not a formula."""
    if element.name == "math":
        return _tex_of(element)
    if element.name == "script" and element.get("type").startswith("math/"):
        return _clean(element.text().removeprefix("% <![CDATA[").removesuffix("%]]>"))
    if element.name != "mjx-container" and not _is_rendered(element.get("class")):
        return None
    inside = list(element.elements(5_000))
    if math := [node for node in inside if node.name == "math"]:
        return _tex_of(math[0])
    labels = (node.get(key) for key in _LABEL_ATTRIBUTES for node in (element, *inside))
    return _clean(next(filter(None, labels), "") or element.text())


@lru_cache(maxsize=4_096)
def _is_rendered(names: str) -> bool:
    return any(name == "katex" or name.startswith("MathJax") for name in names.split())


def _unhide(formula: Element, text: str) -> None:
    """Show the hidden ancestors that contain only this formula, and remove images with the same formula."""
    around, content = formula, "".join(text.split())
    for parent in formula.parents(3):
        if len(parent.children) < 12:
            pictures = [node for node in parent.tags if node.name == "img"]
            parent.remove({id(node) for node in pictures if "".join(_clean(node.get("alt")).split()) == content})
        if any(node is not around and not (isinstance(node, str) and node.isspace()) for node in parent.children):
            return
        if is_folded(parent) or has_noise_class(parent):
            parent.attributes = {}
        around = parent


def _tex_of(math: Element) -> str:
    for node in math.elements(5_000):
        if node.name == "annotation" and node.get("encoding").lower() in ("application/x-tex", "tex", "latex"):
            return _clean(node.text())
    return _clean(math.get("alttext") or " ".join(text for text in math.nodes(_ANNOTATIONS) if isinstance(text, str)))


def _clean(tex: str) -> str:
    text = " ".join(tex.split())
    for begin, end in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if len(text) > len(begin + end) and text.startswith(begin) and text.endswith(end):
            text = text[len(begin) : -len(end)].strip()
    match = _DISPLAYSTYLE.fullmatch(text)
    return match[1].strip() if match else text


_MIN_ALT_WORDS = 3
_MATH = frozenset({"math", "tex", "latex", "equation", "formula"})
_TEX = re.compile(r"\\[A-Za-z]{2}|[\^_]\{|^\$.*\$$|\w\^\w", re.DOTALL)
_ICON_NAME = re.compile(r"(?:^|[\W_])(?:icons?|logos?|badges?|avatars?|spinner|sprite|emoji)(?:[\W_]|$)", re.IGNORECASE)
_FILE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp)(?=$|[?#])", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")


def alternative_text(image: Element) -> str:
    """Return the alternative text of an image, or "" if the image is an icon or decoration, or links to a page."""
    attributes = image.attributes
    alt = fold(attributes.get("alt", ""))
    if not alt or len(alt) > 1_000:
        return ""
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    is_emoji = not alt.isascii() and not any(map(str.isalnum, alt))
    if is_emoji or not _MATH.isdisjoint(names.lower().split()) or _TEX.search(alt):
        return alt
    source = attributes.get("src", "").rpartition("/")[2]
    if attributes.get("role") in ("presentation", "none"):
        return ""
    if len(_WORD.findall(alt)) < _MIN_ALT_WORDS or _ICON_NAME.search(f"{names} {source}") or _FILE.search(alt):
        return ""
    links = (parent for parent in image.parents(4) if parent.name == "a" and "href" in parent.attributes)
    leads_elsewhere = any(not _FILE.search(link.get("href")) for link in links)
    return "" if leads_elsewhere else f" {alt} "

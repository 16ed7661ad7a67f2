"""Formulas of a page, each once and readable: as TeX where the page has it, else as its MathML says, else as drawn.

KaTeX, MathJax 2 to 4, Wikipedia and others write a formula several times over: for the eye, for screen readers, and as
its source. `simplify` puts one text in the place of all of them, before the page is read.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice

from indexer.read.html.html_tree import Element, HtmlTree, parse_html
from indexer.read.html.noise import has_noise_class, is_folded

_SIGNS = ("math", "MathJax", "mjx-", "katex")  # in the markup of a page with formulas
_SAYING = ("data-latex", "aria-label", "alttext")  # attributes of a drawing
_TEX = frozenset({"application/x-tex", "tex", "latex"})
_SPACED = frozenset("= < > ≤ ≥ ≠ ≈ ≡ → ⇒ ⇔ ∈ + − - × · ±".split())  # operators between two terms
_FORMS = {
    "msup": "{}^{}", "msub": "{}_{}", "msubsup": "{}_{}^{}", "mover": "{}^{}", "munder": "{}_{}",
    "munderover": "{}_{}^{}", "mfrac": "{}/{}", "mroot": "√({}, {})",
}  # fmt: skip
_BETWEEN = {"mtr": ", ", "mtable": "; "}
_SILENT = frozenset({"annotation", "annotation-xml", "mphantom", "mspace", "none", "mprescripts"})
_DISPLAYSTYLE = re.compile(r"\{\\(?:display|text)style (.*)\}", re.DOTALL)
_FENCES = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_DEEPEST = 60  # elements within each other of a formula
_NEAR = 3  # elements around one
_LOOKED_AT = 5_000  # nodes of a formula
_FEW = 12  # nodes around the only formula of an element
_HEX = re.compile(r"[0-9A-F]{2,5}")
_CODE = re.compile(r"mjx-c([0-9A-F]{2,5})(?:\s|$)")  # class of a letter as MathJax 3 draws it


def simplify(tree: HtmlTree, markup: str) -> None:
    """Make every formula of a page one text."""
    if not any(sign in markup for sign in _SIGNS):
        return
    _drop_drawings(tree)
    done: set[int] = set()
    for element in tree.elements:
        text = _formula(element) if id(element) not in done else None
        if text is None:
            continue
        done.update(id(node) for node in element.elements())
        _show(element, text)
        is_block = element.get("display") in ("block", "true") or "mode=display" in element.get("type")
        element.name, element.attributes, element.children = "div" if is_block else "span", {}, [text]


def _drop_drawings(tree: HtmlTree) -> None:
    """Take away what MathJax 2 drew before the source of a formula."""
    sources = [script for script in tree.named("script") if _is_source(script)]
    for parent in {id(source.parent): source.parent for source in sources}.values():
        if parent is None:
            continue
        kept: list[Element | str] = []
        drawn = 0  # of the last that are kept
        for node in parent.children:
            if isinstance(node, Element) and _is_source(node):
                kept = kept[: len(kept) - drawn]
            is_drawn = isinstance(node, Element) and node.get("class").startswith(("MathJax", "MJX", "mjx"))
            drawn = drawn + 1 if is_drawn or (drawn and isinstance(node, str) and node.isspace()) else 0
            kept.append(node)
        parent.children = kept


def _is_source(element: Element) -> bool:
    return element.name == "script" and element.get("type").startswith("math/")


def _formula(element: Element) -> str | None:
    """Return the text of the formula that an element is; None if it is none."""
    if element.name == "math":
        return _of_math(element)
    if _is_source(element):
        return _of_source(element.get("type"), element.text())
    names = element.get("class").split() if "class" in element.attributes else []
    if (
        element.name != "mjx-container"
        and "katex" not in names
        and not any(name.startswith("MathJax") for name in names)
    ):
        return None
    inside = [node for node in islice(element.nodes(), _LOOKED_AT) if isinstance(node, Element)]
    math = next((node for node in inside if node.name == "math"), None)
    if math is not None:
        return _of_math(math)
    if "data-mathml" in element.attributes:
        return _of_source("math/mml", element.get("data-mathml"))
    said = (node.get(key) for key in _SAYING for node in (element, *inside))
    return _clean(next(filter(None, said), "") or _drawn(inside) or element.text())


def _drawn(inside: Iterable[Element]) -> str:
    """Return the letters that MathJax 3 drew, by their codes."""
    codes = (found[1] if (found := _CODE.search(node.get("class"))) else node.get("data-c") for node in inside)
    letters = (chr(int(code, 16)) for code in codes if _HEX.fullmatch(code))
    return unicodedata.normalize("NFKC", "".join(letters))


def _show(formula: Element, text: str) -> None:
    """Show what hides a formula and nothing else, and take away a picture of it that says the same."""
    around = formula
    for parent in islice(formula.parents, _NEAR):
        said = "".join(text.split())
        parent.children = [
            node
            for node in (parent.children if len(parent.children) < _FEW else ())
            if isinstance(node, str) or node.name != "img" or "".join(_clean(node.get("alt")).split()) != said
        ] or parent.children
        if any(node is not around and not (isinstance(node, str) and node.isspace()) for node in parent.children):
            return
        if is_folded(parent) or has_noise_class(parent):
            parent.attributes = {}
        around = parent


def _of_math(math: Element) -> str:
    for node in islice(math.elements(), _LOOKED_AT):
        if node.name == "annotation" and node.get("encoding").lower() in _TEX:
            return _clean(node.text())
    return _clean(math.get("alttext") or _linear(math))


def _of_source(kind: str, source: str) -> str:
    if not kind.startswith("math/mml"):
        return _clean(source.removeprefix("% <![CDATA[").removesuffix("%]]>"))
    math = parse_html(source).first("math")
    return _of_math(math) if math is not None else ""


def _clean(tex: str) -> str:
    text = " ".join(tex.split())
    for begin, end in _FENCES:
        if len(text) > len(begin + end) and text.startswith(begin) and text.endswith(end):
            text = text[len(begin) : -len(end)].strip()
    found = _DISPLAYSTYLE.fullmatch(text)
    return found[1].strip() if found else text


def _linear(tag: Element, depth: int = 0) -> str:
    """Return a MathML element on one line: `a^2`, `(a + b)/c`, `√(x)`."""
    name = tag.name
    if name in _SILENT:
        return " " if name == "mspace" else ""
    children = [child for child in tag.children if isinstance(child, Element)]
    if not children or depth > _DEEPEST:
        text = " ".join(tag.text().split())
        return f" {text} " if name == "mo" and text in _SPACED else text
    parts = [_linear(child, depth + 1) for child in children if child.name not in ("annotation", "annotation-xml")]
    grouped = [part if part.isalnum() else f"({part})" for part in map(str.strip, parts)]
    if name in _FORMS and len(parts) == _FORMS[name].count("{"):
        return _FORMS[name].format(parts[0].strip(), *grouped[1:]) if name != "mfrac" else "/".join(grouped)
    if name == "mfenced":
        return f"{tag.attributes.get('open', '(')}{', '.join(parts)}{tag.attributes.get('close', ')')}"
    joined = _BETWEEN.get(name, "").join(parts)
    return f"√({joined.strip()})" if name == "msqrt" else joined

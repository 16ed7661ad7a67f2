"""Equations of Office (OMML) to one line of text that can be read: `x=(-b±√(b^2-4ac))/(2a)`."""

import re
from typing import Any

from indexer.read.office.symbols import text_of_symbol

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DELETED = (f"{_W}del", f"{_W}moveFrom")
_SINGLE = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+|\d+(?:[.,]\d+)?|\S?|√?\([^()]*\)")  # needs no parentheses
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_BAR, _HAT = "\u0305", "\u0302"  # combining


def linear(node: Any) -> str:
    """Return the text of an equation, or of a part of one."""
    return "".join(_text(child) for child in node if isinstance(child.tag, str))


def _text(node: Any) -> str:
    name = node.tag.removeprefix(M)
    if node.tag in _DELETED or (name.endswith("Pr") and name != "sPre"):
        return ""
    if name in ("t", f"{_W}t"):
        return node.text or ""
    if name == f"{_W}sym":
        return text_of_symbol(node)
    if name in _FORMS:
        return _FORMS[name](node)
    return linear(node)


def _part(node: Any, name: str) -> str:
    part = node.find(M + name)
    return linear(part).strip() if part is not None else ""


def _group(text: str) -> str:
    return text if _SINGLE.fullmatch(text) else f"({text})"


def _property(node: Any, name: str, default: str) -> str:
    found = node.find(f"{M}{node.tag.removeprefix(M)}Pr/{M}{name}")
    return default if found is None else str(found.get(f"{M}val", ""))


def _fraction(node: Any) -> str:
    line = "¦" if _property(node, "type", "bar") == "noBar" else "/"
    return f"{_group(_part(node, 'num'))}{line}{_group(_part(node, 'den'))}"


def _script(node: Any) -> str:
    """Return a base with what stands below and above it."""
    return f"{_group(_part(node, 'e'))}{_limits(node)}"


def _limits(node: Any) -> str:
    below, above = _part(node, "sub"), _part(node, "sup")
    return (f"_{_group(below)}" if below else "") + (f"^{_group(above)}" if above else "")


def _root(node: Any) -> str:
    degree = _part(node, "deg")
    return f"{_ROOTS.get(degree, f'{degree}√')}({_part(node, 'e')})"


def _nary(node: Any) -> str:
    return f"{_property(node, 'chr', '∫')}{_limits(node)} {_part(node, 'e')}"


def _delimited(node: Any) -> str:
    parts = (linear(part).strip() for part in node.iterchildren(f"{M}e"))
    inner = _property(node, "sepChr", "|").join(parts)
    return f"{_property(node, 'begChr', '(')}{inner}{_property(node, 'endChr', ')')}"


def _rows(node: Any) -> str:
    """Return a matrix, row by row, or equations that stand below each other."""
    rows = [row.iterchildren(f"{M}e") for row in node.iterchildren(f"{M}mr")]
    if not rows:
        return "; ".join(linear(line).strip() for line in node.iterchildren(f"{M}e"))
    return "; ".join(", ".join(linear(cell).strip() for cell in row) for row in rows)


def _accent(node: Any) -> str:
    return _part(node, "e") + _property(node, "chr", _HAT)


def _barred(node: Any) -> str:
    text = _part(node, "e")
    return text + _BAR if len(text) == 1 and _property(node, "pos", "bot") == "top" else text


def _function(node: Any) -> str:
    name, argument = _part(node, "fName"), _part(node, "e")
    return name + argument if argument.startswith("(") else f"{name} {argument}"


def _phantom(node: Any) -> str:
    return "" if _property(node, "show", "1") in ("0", "off", "false") else _part(node, "e")


_FORMS = {
    "f": _fraction,
    "sSub": _script,
    "sSup": _script,
    "sSubSup": _script,
    "sPre": lambda node: f"{_limits(node)}{_part(node, 'e')}",
    "limLow": lambda node: f"{_part(node, 'e')}_{_group(_part(node, 'lim'))}",
    "limUpp": lambda node: f"{_part(node, 'e')}^{_group(_part(node, 'lim'))}",
    "rad": _root,
    "nary": _nary,
    "d": _delimited,
    "m": _rows,
    "eqArr": _rows,
    "acc": _accent,
    "bar": _barred,
    "func": _function,
    "phant": _phantom,
}

"""Read marks of Markdown's dialects within a line: roles, tags, links of wikis, names of emoji, footnotes."""

import re
from collections.abc import Callable
from typing import NamedTuple

import emoji
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_inline import StateInline

from indexer.read.markup.blocks import IS_MDX, Environment, element_at, tag_at
from indexer.read.markup.restructured import shown_text

_REFERENCED = re.compile(r"\[!\w+[ ]\[[^\[\]\n]{0,300}\]\([^()\n]{0,300}\)\]|\[!\w+[ ][^\[\]\n]{0,300}\]")  # of DocFX
ATTRIBUTES = re.compile(r"\{(:?)([^{}\n]{0,300})\}")
_ATTRIBUTE = re.compile(r"[#.][\w:.-]+|[\w:-]+=(?:\"[^\"]*\"|'[^']*'|[^\s\"'{}]+)|-")
_ATTRIBUTE_WORDS = re.compile(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+")
_ROLE = re.compile(r"\{([A-Za-z][\w:+-]{0,60})\}(`+)([^`]+)\2(?!`)|:([A-Za-z][\w:+-]{0,60}):`([^`]+)`")
_EMOJI = re.compile(r":[\w+][\w+-]{0,60}:(?!\w)")
_ICON = re.compile(r":[a-z][a-z0-9]*(?:-[a-z0-9_]+)+:")
_WIKI_LINK = re.compile(r"!?\[\[(?!\s)([^\[\]\n|]{1,300})(?:\\?\|([^\[\]\n]{1,300}))?\]\](?![(\[])")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp|mp4|webm|mp3|pdf)(?:#.*)?", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\[\^([^\[\]\s]{1,100})\]")
_INLINE_NOTE = re.compile(r"\^\[([^\[\]\n]{1,1000})\]")
_LABELLED = re.compile(r"!?\[([^\[\]\n]{0,300})\](?=[({])")
_TEMPLATED = re.compile(r"\((?:[^(){}\n]++|\{\{[^{}\n]*+\}\}|\{%[^{}\n]*+\})++\)")
_FORMULA = re.compile(r"\$\$([^$`\n]{1,1000})\$\$|\$(?![\s$])([^$`\n]{1,1000}?)(?<!\s)\$(?![\d$])")
_PAIR = re.compile(r"(==|\+\+)(?=[^\s=+])([^\n]{0,200}?[^\s=+])\1(?![\w=+])|([~^])(?!\3)([^\s~^]{1,100})\3(?!\3)")

_emojize = emoji.emojize
_emojize(":tada:", language="alias")  # its table is a file, and readers open none


class _Mark(NamedTuple):
    """What a mark stands for, and the place after it."""

    end: int
    text: str = ""
    html: str = ""
    span: tuple[int, int] | None = None  # of Markdown within the mark
    footnote: str = ""  # its label


def read_mark(state: StateInline, silent: bool) -> bool:
    """Read the mark at a place, if one is there: a rule of the parser."""
    rules = _RULES.get(state.src[state.pos], ())
    marks = (rule(state.src, state.pos, state.posMax, state.env) for rule in rules)
    mark = next((mark for mark in marks if mark), None)
    if mark is None:
        return False
    if not silent:
        if mark.html:
            token = state.push("html_inline", "", 0)
            token.content, token.meta = mark.html, {"footnote": mark.footnote}
        if mark.text:
            state.push("text", "", 0).content = mark.text
        if mark.span:
            most = state.posMax
            state.pos, state.posMax = mark.span
            state.md.inline.tokenize(state)
            state.posMax = most
        if mark.span and mark.text:  # of a note
            state.push("text", "", 0).content = ")"
    state.pos = mark.end
    return True


def attributes_in(found: re.Match[str] | None) -> list[str] | None:
    """Return what is in braces, if all of it is ids, classes and values."""
    words: list[str] = _ATTRIBUTE_WORDS.findall(found[2]) if found else []
    return words if found and (found[1] or (words and all(map(_ATTRIBUTE.fullmatch, words)))) else None


def _tag(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    if tag := tag_at(source, start, end, environment):
        return _Mark(*tag)
    is_element = source[start] == "<" and environment.get(IS_MDX)
    element = element_at(source, start, end, environment) if is_element else None
    return _Mark(element[0], html=element[1]) if element else None


def _role(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    found = _ROLE.match(source, start, end)
    if found is None:
        return None
    name, text = (found[1] or found[4]).upper(), shown_text(found[3] or found[5])
    return _Mark(found.end(), f"{name} {text}" if name in ("PEP", "RFC") else text)


def _attribute_list(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    """Leave out attributes that follow something, or end or begin a line."""
    found = ATTRIBUTES.match(source, start, end)
    if found is None or attributes_in(found) is None:
        return None
    before, after = source[start - 1 : start], source[found.end() : found.end() + 1]
    is_apart = before.isspace() and before != "\n" and after not in ("", "\n")
    return _Mark(found.end()) if found[1] or not is_apart else None


def _emoji_name(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    found = _EMOJI.match(source, start, end)
    if found is None or source[start - 1 : start].isalnum():
        return None
    shown = _emojize(found[0], language="alias")
    if shown == found[0]:
        return _Mark(found.end()) if _ICON.fullmatch(shown) else None
    return _Mark(found.end(), shown)


def _wiki_link(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    found = _WIKI_LINK.match(source, start, end)
    if found is None:
        return None
    target, label = found[1], found[2] or ""
    if found[0][0] == "!" and _PICTURE.search(target):
        return _Mark(found.end(), "" if label.rstrip("px").isdigit() else label)
    is_contents = target.strip("_").lower() == "toc"
    return _Mark(found.end(), "" if is_contents else (label or target.strip("#^").replace("#", " ")))


def _footnote(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    """Read the mark of a footnote, or the text of one that is written where it belongs."""
    if found := _INLINE_NOTE.match(source, start, end):
        return _Mark(found.end(), " (", span=found.span(1))
    found = _FOOTNOTE.match(source, start, end)
    if found is None or f":{found[1]}" not in environment.get("footnotes", {}).get("refs", ()):
        return None
    return _Mark(found.end(), html=f"[{escapeHtml(found[1])}]", footnote=found[1])


def _bracketed(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    """Read the text of a link to what a template names, or of a span with attributes."""
    if found := _REFERENCED.match(source, start, end):
        return _Mark(found.end())
    label = _LABELLED.match(source, start, end)
    if label is None:
        return None
    target = _TEMPLATED.match(source, label.end(), min(end, label.end() + 400))
    if target is None or not ("{{" in target[0] or "{%" in target[0]):
        target = ATTRIBUTES.match(source, label.end(), end)
        target = target if attributes_in(target) is not None else None
    return _Mark(target.end(), span=label.span(1)) if target else None


def _math(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    """Read a formula, whose signs mean nothing else; amounts of money are none."""
    found = _FORMULA.match(source, start, end)
    if found is None or source[start - 1 : start].isalnum():
        return None
    return _Mark(found.end(), html=escapeHtml(found[1] or found[2]))


def _pair(source: str, start: int, end: int, environment: Environment) -> _Mark | None:
    """Read what is marked, inserted, raised or lowered."""
    found = _PAIR.match(source, start, end)
    before = source[start - 1 : start] if start else ""
    if found is None or before == source[start] or (found[1] and (before.isalnum() or before == "_")):
        return None
    return _Mark(found.end(), span=found.span(2 if found[1] else 4))


_RULES: dict[str, tuple[Callable[[str, int, int, Environment], _Mark | None], ...]] = {
    "{": (_role, _tag, _attribute_list),
    "<": (_tag,),
    "%": (_tag,),
    ":": (_role, _emoji_name),
    "[": (_footnote, _wiki_link, _bracketed),
    "!": (_wiki_link, _bracketed),
    "^": (_footnote, _pair),
    "~": (_pair,),
    "=": (_pair,),
    "$": (_math,),
    "+": (_pair,),
}

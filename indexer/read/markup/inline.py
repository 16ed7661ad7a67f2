"""Marks of Markdown's dialects within a line: roles, tags, links of wikis, names of emoji, attributes, footnotes."""

import re
from collections.abc import Callable

import emoji
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_inline import StateInline

from indexer.read.markup.blocks import IS_MDX, element_at, tag_at
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


def read_mark(state: StateInline, silent: bool) -> bool:
    """Read the mark at a place, if one is there: a rule of the parser."""
    rules = _RULES.get(state.src[state.pos])
    return rules is not None and any(rule(state, silent) for rule in rules)


def attributes_in(found: re.Match[str]) -> list[str] | None:
    """Return what is in braces, if all of it is ids, classes and values."""
    words: list[str] = _ATTRIBUTE_WORDS.findall(found[2])
    return words if found[1] or (words and all(map(_ATTRIBUTE.fullmatch, words))) else None


def _take(state: StateInline, silent: bool, end: int, text: str = "") -> bool:
    """Go on after a mark, and write the text that it stands for."""
    if text and not silent:
        state.push("text", "", 0).content = text
    state.pos = end
    return True


def _parse_within(state: StateInline, silent: bool, span: tuple[int, int], end: int) -> bool:
    """Go on after marks, and read what is between them."""
    if not silent:
        most = state.posMax
        state.pos, state.posMax = span
        state.md.inline.tokenize(state)
        state.posMax = most
    state.pos = end
    return True


def _inline_tag(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if tag := tag_at(state.src, start, state.posMax, state.env):
        return _take(state, silent, *tag)
    if state.src[start] != "<" or not state.env.get(IS_MDX):
        return False
    element = element_at(state.src, start, state.posMax, state.env)
    if element is None:
        return False
    if not silent:
        state.push("html_inline", "", 0).content = element[1]
    return _take(state, silent, element[0])


def _role(state: StateInline, silent: bool) -> bool:
    found = _ROLE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    name, text = (found[1] or found[4]).upper(), shown_text(found[3] or found[5])
    return _take(state, silent, found.end(), f"{name} {text}" if name in ("PEP", "RFC") else text)


def _attribute_list(state: StateInline, silent: bool) -> bool:
    """Leave out attributes that follow something, or end or begin a line."""
    found = ATTRIBUTES.match(state.src, state.pos, state.posMax)
    if found is None or attributes_in(found) is None:
        return False
    before, after = state.src[state.pos - 1 : state.pos], state.src[found.end() : found.end() + 1]
    is_apart = before.isspace() and before != "\n" and after not in ("", "\n")
    return (bool(found[1]) or not is_apart) and _take(state, silent, found.end())


def _emoji_name(state: StateInline, silent: bool) -> bool:
    found = _EMOJI.match(state.src, state.pos, state.posMax)
    if found is None or state.src[state.pos - 1 : state.pos].isalnum():
        return False
    shown = _emojize(found[0], language="alias")
    if shown == found[0]:
        return _ICON.fullmatch(shown) is not None and _take(state, silent, found.end())
    return _take(state, silent, found.end(), shown)


def _wiki_link(state: StateInline, silent: bool) -> bool:
    found = _WIKI_LINK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    is_embedded = found[0][0] == "!"
    if is_embedded and _PICTURE.search(found[1]):
        return _take(state, silent, found.end(), "" if (found[2] or "").rstrip("px").isdigit() else found[2] or "")
    is_contents = found[1].strip("_").lower() == "toc"
    return _take(
        state, silent, found.end(), "" if is_contents else (found[2] or found[1].strip("#^").replace("#", " "))
    )


def _footnote(state: StateInline, silent: bool) -> bool:
    """Read the mark of a footnote, or the text of one that is written where it belongs."""
    if found := _INLINE_NOTE.match(state.src, state.pos, state.posMax):
        _take(state, silent, found.start(), " (")
        _parse_within(state, silent, found.span(1), found.end())
        return _take(state, silent, found.end(), ")")
    found = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if found is None or f":{found[1]}" not in state.env.get("footnotes", {}).get("refs", ()):
        return False
    if not silent:
        token = state.push("html_inline", "", 0)
        token.content, token.meta = f"[{escapeHtml(found[1])}]", {"footnote": found[1]}
    return _take(state, silent, found.end())


def _bracketed(state: StateInline, silent: bool) -> bool:
    """Read the text of a link to what a template names, or of a span with attributes."""
    if found := _REFERENCED.match(state.src, state.pos, state.posMax):
        return _take(state, silent, found.end())
    label = _LABELLED.match(state.src, state.pos, state.posMax)
    if label is None:
        return False
    target = _TEMPLATED.match(state.src, label.end(), min(state.posMax, label.end() + 400))
    if target is not None and ("{{" in target[0] or "{%" in target[0]):
        return _parse_within(state, silent, label.span(1), target.end())
    span = ATTRIBUTES.match(state.src, label.end(), state.posMax)
    if span is None or attributes_in(span) is None:
        return False
    return _parse_within(state, silent, label.span(1), span.end())


def _math(state: StateInline, silent: bool) -> bool:
    """Read a formula, whose signs mean nothing else; amounts of money are none."""
    found = _FORMULA.match(state.src, state.pos, state.posMax)
    if found is None or state.src[state.pos - 1 : state.pos].isalnum():
        return False
    if not silent:
        state.push("html_inline", "", 0).content = escapeHtml(found[1] or found[2])
    return _take(state, silent, found.end())


def _pair(state: StateInline, silent: bool) -> bool:
    """Read what is marked, inserted, raised or lowered."""
    found = _PAIR.match(state.src, state.pos, state.posMax)
    before = state.src[state.pos - 1 : state.pos] if state.pos else ""
    if found is None or before == state.src[state.pos] or (found[1] and (before.isalnum() or before == "_")):
        return False
    return _parse_within(state, silent, found.span(2 if found[1] else 4), found.end())


_RULES: dict[str, tuple[Callable[[StateInline, bool], bool], ...]] = {
    "{": (_role, _inline_tag, _attribute_list),
    "<": (_inline_tag,),
    "%": (_inline_tag,),
    ":": (_role, _emoji_name),
    "[": (_footnote, _wiki_link, _bracketed),
    "!": (_wiki_link, _bracketed),
    "^": (_footnote, _pair),
    "~": (_pair,),
    "=": (_pair,),
    "$": (_math,),
    "+": (_pair,),
}

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
_EMOJI = re.compile(r"(?<![^\W_]):[\w+][\w+-]{0,60}:(?!\w)")
_ICON = re.compile(r":[a-z][a-z0-9]*(?:-[a-z0-9_]+)+:")
_WIKI_LINK = re.compile(r"!?\[\[(?!\s)([^\[\]\n|]{1,300})(?:\\?\|([^\[\]\n]{1,300}))?\]\](?![(\[])")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp|mp4|webm|mp3|pdf)(?:#.*)?", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\[\^([^\[\]\s]{1,100})\]")
_INLINE_NOTE = re.compile(r"\^\[([^\[\]\n]{1,1000})\]")
_LABELLED = re.compile(r"!?\[([^\[\]\n]{0,300})\](?=[({])")
_TEMPLATED = re.compile(r"\((?:[^(){}\n]++|\{\{[^{}\n]*+\}\}|\{%[^{}\n]*+\})++\)")
_FORMULA = re.compile(r"(?<![^\W_])(?:\$\$([^$`\n]{1,1000})\$\$|\$(?![\s$])([^$`\n]{1,1000}?)(?<!\s)\$(?![\d$]))")
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
    for pattern, rule in _RULES.get(state.src[state.pos], ()):
        found = pattern.match(state.src, state.pos, state.posMax)
        if found and (mark := rule(found, state.env)):
            break
    else:
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


def _tag(found: re.Match[str], environment: Environment) -> _Mark | None:
    if tag := tag_at(found.string, found.start(), found.endpos, environment):
        return _Mark(*tag)
    is_element = found[0] == "<" and environment.get(IS_MDX)
    element = element_at(found.string, found.start(), found.endpos, environment) if is_element else None
    return _Mark(element[0], html=element[1]) if element else None


def _role(found: re.Match[str], environment: Environment) -> _Mark | None:
    name, text = (found[1] or found[4]).upper(), shown_text(found[3] or found[5])
    return _Mark(found.end(), f"{name} {text}" if name in ("PEP", "RFC") else text)


def _attribute_list(found: re.Match[str], environment: Environment) -> _Mark | None:
    """Leave out attributes that follow something, or end or begin a line."""
    before, after = found.string[max(0, found.start() - 1) : found.start()], found.string[found.end() : found.end() + 1]
    is_apart = before.isspace() and before != "\n" and after not in ("", "\n")
    is_list = attributes_in(found) is not None and (found[1] or not is_apart)
    return _Mark(found.end()) if is_list else None


def _emoji_name(found: re.Match[str], environment: Environment) -> _Mark | None:
    shown = _emojize(found[0], language="alias")
    if shown == found[0]:
        return _Mark(found.end()) if _ICON.fullmatch(shown) else None
    return _Mark(found.end(), shown)


def _wiki_link(found: re.Match[str], environment: Environment) -> _Mark | None:
    target, label = found[1], found[2] or ""
    if found[0][0] == "!" and _PICTURE.search(target):
        return _Mark(found.end(), "" if label.rstrip("px").isdigit() else label)
    is_contents = target.strip("_").lower() == "toc"
    return _Mark(found.end(), "" if is_contents else (label or target.strip("#^").replace("#", " ")))


def _footnote(found: re.Match[str], environment: Environment) -> _Mark | None:
    is_known = f":{found[1]}" in environment.get("footnotes", {}).get("refs", ())
    return _Mark(found.end(), html=f"[{escapeHtml(found[1])}]", footnote=found[1]) if is_known else None


def _labelled(label: re.Match[str], environment: Environment) -> _Mark | None:
    """Read the text of a link to what a template names, or of a span with attributes."""
    target = _TEMPLATED.match(label.string, label.end(), min(label.endpos, label.end() + 400))
    if target is None or not ("{{" in target[0] or "{%" in target[0]):
        target = ATTRIBUTES.match(label.string, label.end(), label.endpos)
        target = target if attributes_in(target) is not None else None
    return _Mark(target.end(), span=label.span(1)) if target else None


def _pair(found: re.Match[str], environment: Environment) -> _Mark | None:
    """Read what is marked, inserted, raised or lowered."""
    before = found.string[found.start() - 1] if found.start() else ""
    if before == found[0][0] or (found[1] and (before.isalnum() or before == "_")):
        return None
    return _Mark(found.end(), span=found.span(2 if found[1] else 4))


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Environment], _Mark | None]]
_TAGS: _Rule = re.compile("[{<%]"), _tag
_ROLES: _Rule = _ROLE, _role
_PAIRS: _Rule = _PAIR, _pair
_LINKS: tuple[_Rule, ...] = (_WIKI_LINK, _wiki_link), (_LABELLED, _labelled)
_RULES: dict[str, tuple[_Rule, ...]] = {
    "{": (_ROLES, _TAGS, (ATTRIBUTES, _attribute_list)),
    "<": (_TAGS,),
    "%": (_TAGS,),
    ":": (_ROLES, (_EMOJI, _emoji_name)),
    "[": ((_FOOTNOTE, _footnote), _LINKS[0], (_REFERENCED, lambda found, _: _Mark(found.end())), _LINKS[1]),
    "!": _LINKS,
    "^": ((_INLINE_NOTE, lambda found, _: _Mark(found.end(), " (", span=found.span(1))), _PAIRS),
    "$": ((_FORMULA, lambda found, _: _Mark(found.end(), html=escapeHtml(found[1] or found[2]))),),
    **dict.fromkeys("~=+", (_PAIRS,)),
}

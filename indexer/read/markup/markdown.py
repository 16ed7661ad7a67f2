"""Convert the dialects of Markdown to HTML, and parse front matter (YAML, TOML or JSON)."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import date, time
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote

import emoji
import yaml
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml, normalizeReference
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote.index import footnote_def

from indexer.errors import ParseError
from indexer.filter import MAX_VALUES
from indexer.read.access_list import ACCESS, MAX_FRONT_MATTER, NOBODY, access_keys, begins_with_list, readers_in_fields
from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.main_content import extract
from indexer.read.markup import blocks
from indexer.read.markup.blocks import ESM
from indexer.read.markup.restructured import shown_text
from indexer.read.markup.tags import IS_MDX, Environment, element_at, shown_words, tag_at
from indexer.records import Declared, Extraction
from indexer.text import reader_notes
from indexer.text.charsets import decode
from indexer.text.cleaning import visible

_ATTRIBUTES = re.compile(r"\{(:?)([^{}]{0,1000})\}")
_ATTRIBUTE = re.compile(r"[#.][\w:.-]+|[\w:-]+=(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'{}]+)|-")
_ATTRIBUTE_WORDS = re.compile(r"(?:[^\s\"']|\"(?:[^\"\\]|\\.)*\"|'[^']*')+")
_ROLE = re.compile(r"\{([A-Za-z][\w:+-]{0,60})\}(`+)([^`]+)\2(?!`)|:([A-Za-z][\w:+-]{0,60}):`([^`]+)`")
_EMOJI = re.compile(r"(?<![^\W_]):[\w+][\w+-]{0,60}:(?!\w)")
_ICON = re.compile(r":[a-z][a-z0-9]*(?:-[a-z0-9_]+)+:")
_WIKI_LINK = re.compile(r"(?<!\[)!?\[\[(?!\s)([^\[\]\n|]{1,300})(?:\\?\|([^\[\]\n]{1,300}))?\]\](?![(\[])")
_MACRO = re.compile(r"_\w+_|toc", re.IGNORECASE)
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp|mp4|webm|mp3|pdf)(?:#.*)?", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\[\^([^\[\]\s]{1,100})\]")
_INLINE_NOTE = re.compile(r"\^\[([^\[\]\n]{1,1000})\]")
_LABELLED = re.compile(r"!?\[([^\[\]\n]{0,300})\](?=[({])")
_TEMPLATED = re.compile(r"\((?:[^(){}\n]++|\{\{[^{}\n]*+\}\}|\{%[^{}\n]*+\})++\)")
_ALERT = re.compile(r"\[!([\w-]+)(?:\|[^\[\]\n]*)?\](?:[+-](?=\s|$))?[ \t]*([^\n]*)(\n|$)")
_EXTENSION = re.compile(r"\[![\w-]++[ \t]*+(\[[^\[\]\n]*\]\([^()\n]*\)|[^\[\]\n]{1,300})\](?:\{[^{}\n]*\})?")
_KEYS = re.compile(r"(?<![\w+])\+\+([\w\"'<-][^+`\n]{0,60}(?:\+[^+`\n]{1,60}){0,9})(?<!\s)\+\+(?![\w+])")
_LITERAL = re.compile(r"(?<![^\W_])(?:\$\$([^$`\n]{1,1000})\$\$|\$(?![\s$])([^$`\n]{1,1000}?)(?<!\s)\$(?![\d$]))")
_PAIR = re.compile(  # ==highlight==, H~2~O, x^2^, ^^inserted text^^; ^block-ids; CriticMarkup; <<variables>>
    r"(?<![\w=])==(?=[^\s=])((?:[^`\n=]{1,200}+|=(?!=)|`[^`\n]{1,60}+`){1,20}+(?<!\s))==(?![\w=])"
    r"|(?<![~/])~(?![~/])([^\s~`]{1,100})~(?![~/\d])|(?<!\^)\^(?!\^)([^\s^`]{1,100})\^(?!\^)"
    r"|\^\^(?=[^\s^])([^`\n^]{1,200}(?<!\s))\^\^|(?<!\S)\^[A-Za-z\d][\w-]+[ \t]*(?=\n|$)"
    r"|\{(?:\+\+([^{}]{1,1000}?)\+\+|==([^{}]{1,1000}?)==|~~[^{}]{0,1000}?~>([^{}]{0,1000}?)~~|--[^{}]{1,1000}?--"
    r"|>>[^{}]{1,1000}?<<)\}"
    r"|<<(?:glossary:)?(\w[\w :.-]{0,60})>>"
)
_REFERENCE = re.compile(r"<(?:xref|project|inv|path|doc):(?:[\w.-]*+:)*+#?([^\s<>?]++)[^\s<>]*+>")
_emojize = emoji.emojize
_emojize(":tada:", language="alias")  # loads the table of names, because reader processes cannot open files later


class _Mark(NamedTuple):
    """The result of parsing inline markup up to `end`: text, HTML, or the `span` of a text to be parsed further."""

    end: int
    text: str = ""
    html: str = ""
    span: tuple[int, int] | None = None
    footnote_label: str = ""


def _read_mark(state: StateInline, silent: bool) -> bool:
    for pattern, rule in _RULES.get(state.src[state.pos], ()):
        match = pattern.match(state.src, state.pos, state.posMax)
        if match and (mark := rule(match, state.env)):
            break
    else:
        return False
    if not silent:
        if mark.text:
            state.push("text", "", 0).content = mark.text
        if mark.span:
            limit = state.posMax
            state.pos, state.posMax = mark.span
            state.md.inline.tokenize(state)
            state.posMax = limit
        if mark.html:
            token = state.push("html_inline", "", 0)
            token.content, token.meta = mark.html, {"footnote": mark.footnote_label}
    state.pos = mark.end
    return True


def _attributes_in(match: re.Match[str] | None) -> list[str] | None:
    """Return the attributes in braces, such as `#id`, `.class` and `key=value`, or None if there is other text."""
    words: list[str] = _ATTRIBUTE_WORDS.findall(match[2]) if match else []
    return words if match and (match[1] or (words and all(map(_ATTRIBUTE.fullmatch, words)))) else None


def _tag(match: re.Match[str], environment: Environment) -> _Mark | None:
    if tag := tag_at(match.string, match.start(), match.endpos, environment):
        end, text = tag
        return _Mark(end, f"{text} " if text and match.string[end : end + 1].isalnum() else text)
    is_element = match[0] == "<" and environment.get(IS_MDX)
    element = element_at(match.string, match.start(), match.endpos, environment) if is_element else None
    return _Mark(element[0], html=element[1]) if element else None


def _role(match: re.Match[str], environment: Environment) -> _Mark | None:
    name, text = (match[1] or match[4]).upper(), shown_text(match[3] or match[5])
    return _Mark(match.end(), f"{name} {text}" if name in ("PEP", "RFC") else text)


def _attribute_list(match: re.Match[str], environment: Environment) -> _Mark | None:
    """Skip attributes such as `{.class}` next to a text or at a line end. Show titles given to links and pictures."""
    before, after = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
    is_apart = before.isspace() and before != "\n" and after not in ("", "\n")
    is_list = _attributes_in(match) is not None and (match[1] or not is_apart)
    return _Mark(match.end(), shown_words(f" {match[2]}") if before == ")" else "") if is_list else None


def _emoji_name(match: re.Match[str], environment: Environment) -> _Mark | None:
    shown = _emojize(match[0], language="alias")
    if shown == match[0]:
        return _Mark(match.end()) if _ICON.fullmatch(shown) else None
    return _Mark(match.end(), shown)


def _wiki_link(match: re.Match[str], environment: Environment) -> _Mark | None:
    target, label = match[1].partition("#^")[0], match[2] or ""
    if normalizeReference(target) in environment.get("references", ()):
        return None
    if match[0][0] == "!" and _PICTURE.search(target):
        return _Mark(match.end(), "" if label.rstrip("px").isdigit() else label)
    return _Mark(match.end(), "" if _MACRO.fullmatch(target) else (label or target.strip("#^").replace("#", " ")))


def _alert(title: re.Match[str], environment: Environment) -> _Mark | None:
    if title.start():
        return None
    kind = "" if title[2].strip() else title[1].replace("-", " ").capitalize()
    return _Mark(title.end(), kind, "<br>" if title[3] else "", title.span(2))


def _extension(mark: re.Match[str], environment: Environment) -> _Mark | None:
    """Show the text of `[!NAME text]`, unless it is a URL, a list of attributes, or a link to an included file."""
    if mark[1].startswith("["):
        reader_notes.add("a file that Markdown includes was left out")
    return _Mark(mark.end(), "" if re.match(r"\[|\w+:/|[\w-]+=", mark[1]) else mark[1].strip())


def _pressed_keys(keys: re.Match[str], environment: Environment) -> _Mark | None:
    """Show `++ctrl+arrow-up++` as keys ("Ctrl+Arrow Up"), and `++more words++` as inserted text."""
    if " " in keys[1].strip("\"'") and keys[1][0] not in "\"'":
        return _Mark(keys.end(), span=keys.span(1))
    return _Mark(keys.end(), "+".join(key.strip("\"'").replace("-", " ").title() for key in keys[1].split("+")))


def _footnote(match: re.Match[str], environment: Environment) -> _Mark | None:
    is_known = f":{match[1]}" in environment.get("footnotes", {}).get("refs", ())
    return _Mark(match.end(), html=f"[{escapeHtml(match[1])}]", footnote_label=match[1]) if is_known else None


def _labelled(label: re.Match[str], environment: Environment) -> _Mark | None:
    """Show the text of a link whose target is a template tag, `[text]({{ url }})`, or of a span, `[text]{.class}`."""
    target = _TEMPLATED.match(label.string, label.end(), min(label.endpos, label.end() + 400))
    if target is None or not ("{{" in target[0] or "{%" in target[0]):
        target = _ATTRIBUTES.match(label.string, label.end(), label.endpos)
        target = target if _attributes_in(target) is not None else None
    return _Mark(target.end(), span=label.span(1)) if target else None


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Environment], _Mark | None]]
_TAGS: _Rule = re.compile("[{<%]"), _tag
_ROLES: _Rule = _ROLE, _role
_PAIRS: _Rule = (_PAIR, lambda pair, _: _Mark(pair.end(), span=pair.span(pair.lastindex) if pair.lastindex else None))
_LITERALS: _Rule = _LITERAL, lambda text, _: _Mark(text.end(), html=escapeHtml(text[text.lastindex or 0]))
_LINKS: tuple[_Rule, ...] = (_WIKI_LINK, _wiki_link), (_LABELLED, _labelled)
_NOTE: _Rule = _INLINE_NOTE, lambda note, _: _Mark(note.end(), " ", span=(note.start() + 1, note.end()))
_RULES: dict[str, tuple[_Rule, ...]] = {
    "{": (_PAIRS, _ROLES, _TAGS, (_ATTRIBUTES, _attribute_list)),
    "<": (_PAIRS, (_REFERENCE, lambda target, _: _Mark(target.end(), unquote(target[1]))), _TAGS),
    "%": (_TAGS,),
    ":": (_ROLES, (_EMOJI, _emoji_name)),
    "[": ((_FOOTNOTE, _footnote), (_ALERT, _alert), (_EXTENSION, _extension), *_LINKS),
    "!": _LINKS,
    "^": (_NOTE, _PAIRS),
    "+": ((_KEYS, _pressed_keys),),
    "$": (_LITERALS,),
    **dict.fromkeys("~=", (_PAIRS,)),
}


_CONTENTS = re.compile(r"\[toc\]|[^\n]*\n?\{:[ ]?(?:[^{}]*\s)?toc\b[^{}]*\}", re.IGNORECASE)
_LOGSEQ_MARKUP = re.compile(  # block references such as `((id))`, and drawers such as `:LOGBOOK: … :END:`
    r"(?<![ \t])[ \t]*+\(\([\da-f-]{36}\)\)|^:[A-Z-]+:\n(?:[^\n]*\n){0,50}?:END:[ \t]*$", re.MULTILINE
)
_TASK = re.compile(r"\[[ xX/-]\](?=\s|$)")
_HEADING_ID = re.compile(r"[ ](?:\{/\*\s*#([\w-]+)\s*\*/\}|\[#([\w-]+)\]|:id=([\w-]+)|\[!?toc\])$")
_TAB = re.compile(r"\[(.*)\]\(#tab/.*\)")


def _parser(*, is_mdx: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    deflist_plugin(parser)
    dollarmath_plugin(parser, allow_labels=False, allow_blank_lines=False)  # a formula may not contain blank lines
    parser.disable("math_inline")  # it would match dollar signs of code and of amounts of money
    ruler = parser.block.ruler
    everywhere: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    ruler.at("fence", blocks.read_fence, everywhere)
    ruler.at("html_block", blocks.read_html, {"alt": ["paragraph", "reference", "blockquote"]})
    ruler.before("reference", "footnote_def", footnote_def, {"alt": ["paragraph", "reference"]})
    for rule in (blocks.read_box, blocks.read_colons, blocks.read_mark_line, blocks.read_json_block):
        ruler.before("fence", rule.__name__, rule, everywhere)
    for rule in (blocks.read_module, blocks.read_highlight, blocks.read_tags, blocks.read_grid):
        ruler.before("fence", rule.__name__, rule)
    parser.core.ruler.before("inline", "before_inline", _before_inline)
    parser.core.ruler.push("footnotes", _place_footnotes)
    parser.inline.ruler.before("backticks", "dialects", _read_mark)
    return parser.disable("code") if is_mdx else parser


def _before_inline(state: StateCore) -> None:
    """Remove markup, such as ids and checkboxes of tasks, from the beginning and end of headings and paragraphs."""
    tokens = state.tokens
    for place, token in enumerate(tokens):
        if token.type != "inline" or not token.content or not place:
            continue
        opening, outer = tokens[place - 1], tokens[place - 2].type if place > 1 else ""
        if opening.type == "heading_open":
            token.content = _without_id(opening, token.content)
            if tab := _TAB.fullmatch(token.content):
                opening.type, opening.tag, tokens[place + 1].tag, token.content = "paragraph_open", "p", "p", tab[1]
        elif opening.type == "paragraph_open":
            token.content = _LOGSEQ_MARKUP.sub("", token.content)
            if _CONTENTS.fullmatch(token.content):
                token.content = ""
            elif outer == "list_item_open":
                token.content = _TASK.sub("", token.content, count=1)
            elif outer == "heading_close" and (attributes := _ATTRIBUTES.fullmatch(token.content)) and attributes[1]:
                token.content = _without_id(tokens[place - 4], token.content)


def _without_id(heading: Token, content: str) -> str:
    """Return the text of a heading without attributes such as `{#id}` at its end. Set the heading's id."""
    begin = max(content.rfind("{"), content.rfind(" [") + 1, content.rfind(" :id=") + 1)
    attributes = _attributes_in(_ATTRIBUTES.fullmatch(content, begin) if begin >= 0 else None)
    if comment := _HEADING_ID.match(content, begin - 1):
        attributes = [f"#{anchor}" for anchor in comment.groups() if anchor]
    if attributes is None:
        return content
    for one in attributes:
        if one.startswith("#"):
            heading.attrSet("id", one[1:])
    return content[:begin].rstrip()


def _place_footnotes(state: StateCore) -> None:
    """Move the text of each footnote to the end of the section that first refers to the footnote."""
    texts: dict[str, list[Token]] = {}
    body: list[Token] = []
    current = body
    for token in state.tokens:
        if token.type == "footnote_reference_open":
            current = texts.setdefault(token.meta["label"], [])
        elif token.type == "footnote_reference_close":
            current = body
        else:
            current.append(token)
    for label, tokens in texts.items():
        inline = next((token for token in tokens if token.type == "inline"), None)
        if inline is not None and inline.children is not None:
            inline.children.insert(0, Token("text", "", 0, content=f"[{label}] "))
    ordered: list[Token] = []
    due: list[Token] = []
    for token in body if texts else ():
        if token.type == "heading_open" and not token.level:
            ordered += due
            due = []
        ordered.append(token)
        for child in token.children or ():
            due += texts.pop(child.meta.get("footnote", ""), ())
    if texts or ordered:
        state.tokens = [*ordered, *due, *(token for tokens in texts.values() for token in tokens)]


PARSER, MDX_PARSER = _parser(is_mdx=False), _parser(is_mdx=True)


_YAML = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?\n)?\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_JSON = re.compile(r"\A\{[ \t]*\n[ \t]*\"[^\"\n]{1,100}\"[ \t]*:")
_LINE = re.compile(r"^(\w[\w-]*+):[ \t]++(\S.*)$", re.MULTILINE)
_CHANGED = ("lastmod", "last_modified", "modified", "updated", "date")
_OURS = ("title", "language", "lang", ACCESS, *_CHANGED)


def split_front_matter(text: str) -> tuple[str | None, Declared, str]:
    """Return the title in the front matter or None, the other metadata, and the text below the front matter."""
    fields, end, is_toml = _fields(text)
    lists = {str(name): value if isinstance(value, list) else [value] for name, value in fields.items()}
    texts = {name: [*filter(None, map(_written, values[:MAX_VALUES]))] for name, values in lists.items()}
    languages = [*texts.get("language", ()), *texts.get("lang", ())]
    declared = Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day(day for name in _CHANGED for day in texts.get(name, ())),
        metadata=collect((name, value) for name, values in texts.items() if name not in _OURS for value in values),
        access=NOBODY if begins_with_list(text[end:]) else readers_in_fields(fields, text[:end], is_toml=is_toml),
    )
    return next(iter(texts.get("title", ())), None), declared, text[end:]


def _fields(text: str) -> tuple[dict[Any, Any], int, bool]:
    fields: Any = {}
    end, is_toml = 0, False
    with suppress(ValueError, RecursionError):
        if match := _YAML.match(text):
            front = match[1] or ""
            try:
                # BaseLoader creates only strings, lists and dicts, and neither copies aliases nor expands merge keys
                fields = yaml.load(front, Loader=yaml.BaseLoader) if len(front) <= MAX_FRONT_MATTER else {}  # noqa: S506
            except yaml.YAMLError:
                fields = {name: value.rstrip().strip("\"'") for name, value in _LINE.findall(front)} or None
            is_front = isinstance(fields, dict) and not front.startswith("\n")  # `---\n\n` is a horizontal rule
            # front matter with an access list stays front matter even if it is not valid YAML
            is_front = is_front or not front.strip() or any(access_keys(visible(front)))
            fields, end = (fields, match.end()) if is_front else (None, 0)
        elif match := _TOML.match(text):
            front, end, is_toml = match[1] or "", match.end(), True
            fields = tomllib.loads(front) if len(front) <= MAX_FRONT_MATTER else {}
        elif _JSON.match(text):
            fields, end = json.JSONDecoder().raw_decode(text[:MAX_FRONT_MATTER])
    return fields if isinstance(fields, dict) else {}, end, is_toml


def _written(value: object) -> str:
    """Return a value as YAML writes it, such as "true", or "" for null, lists and mappings."""
    if isinstance(value, date | time):
        return value.isoformat()
    text = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, str | int | float) else ""
    return "" if text in ("~", "null") else text


_MAX_LINES = 200_000
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


class Rendered(NamedTuple):
    """A text converted to HTML, with the title and metadata of its front matter."""

    html: str
    title: str | None
    declared: Declared

    def extraction(self) -> Extraction:
        """Extract the sections of the HTML. Wrap it in <main>, so that a <main> in the text has no effect."""
        content = extract(f"<body><main>{self.html}</main></body>")
        title = self.title or content.title
        return Extraction(title, content.sections, self.declared, link_texts=content.link_texts)


def read(body: bytes, charset: str | None, *, is_mdx: bool = False) -> Extraction:
    """Extract the sections and metadata of a Markdown text."""
    return render(decode(body, charset, markup=False), is_mdx=is_mdx).extraction()


def read_mdx(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of an MDX file, including the visible words of its components."""
    return read(body, charset, is_mdx=True)


def render(text: str, *, is_mdx: bool = False) -> Rendered:
    """Convert Markdown to HTML, and parse its front matter. Raises ParseError if there are too many lines.

    A heading without an id gets the id that GitHub would create. A text that begins with an import or export is MDX.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > _MAX_LINES:
        raise ParseError(f"more than {_MAX_LINES:,} lines of Markdown")
    title, declared, text = split_front_matter(text)
    is_mdx = is_mdx or ESM.match(text.lstrip("\n")) is not None
    parser, env = (MDX_PARSER if is_mdx else PARSER), {IS_MDX: is_mdx}
    tokens = parser.parse(text, env)
    slug_counts: Counter[str] = Counter()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.attrGet("id") is None:
            words = (token.content for token in inline.children or () if token.type in ("text", "code_inline"))
            slug = _NOT_IN_SLUG.sub("", "".join(words).strip().lower()).replace(" ", "-")
            opening.attrSet("id", f"{slug}-{slug_counts[slug]}" if slug_counts[slug] else slug)
            slug_counts[slug] += 1
    html = parser.renderer.render(tokens, parser.options, env)
    return Rendered(html, title, declared)

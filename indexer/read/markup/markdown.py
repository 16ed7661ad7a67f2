"""Read Markdown in its dialects, and what a text says about itself in its front matter, in YAML, TOML or JSON.

Front matter may say who may read the text. Whatever looks like such a list and cannot be read, wherever it stands,
closes the text: a slip of the pen must not make a document public.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, time
from itertools import pairwise
from typing import Any, NamedTuple

import yaml
from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote.index import footnote_def

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.filter import MOST_VALUES
from indexer.read.access_list import NOBODY, readers_of
from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.main_content import extract
from indexer.read.markup import blocks
from indexer.read.markup.blocks import ESM, IS_MDX
from indexer.read.markup.inline import ATTRIBUTES, attributes_in, read_mark
from indexer.records import Declared, Extraction, Readers

_YAML = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?\n)?\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_JSON = re.compile(r"\A\{[ \t]*\n[ \t]*\"[^\"\n]{1,100}\"[ \t]*:")
_LINE = re.compile(r"^(\w[\w-]*):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_LONGEST = 16_000  # characters; the parsers take a millisecond for each few hundred
_CHANGED = ("lastmod", "last_modified", "modified", "updated", "date")  # the surest first
_ACCESS = "access"
_OURS = ("title", "language", "lang", _ACCESS, *_CHANGED)
_MENTIONS_ACCESS = re.compile(
    rf"^(?:[^\S\n]|[{{\[,\"'?-])*(?:[\w.-]{{1,100}}\.)?[\"']?{_ACCESS}\b", re.MULTILINE | re.IGNORECASE
)
_STATES_ACCESS = re.compile(
    rf"[^\S\n]*(?:[\"']?{_ACCESS}[\"']?[^\S\n]*[:=.]|\[[^\S\n]*[\"']?{_ACCESS}\b)", re.IGNORECASE
)
_NAMES = re.compile(r"[^\S\n]|[\"']?[\w.-]{1,100}[\"']?[^\S\n]*[:=]|[\[\]{}#-]|$")  # how a line of fields begins
_DELIMITER = re.compile(r"(?:-{2,}|\+{2,}|;{3,}|\.{3,})\w{0,4}[^\S\n]*\Z")
_FENCE = re.compile(r"[ ]{0,3}(?:`{3}|~{3})")


def split_front_matter(text: str) -> tuple[str | None, Declared, str]:
    """Return the title, what else is declared, and the text after the front matter."""
    fields, access, rest = _fields(text)
    lists = {str(name): value if isinstance(value, list) else [value] for name, value in fields.items()}
    texts = {name: [said for value in values[:MOST_VALUES] if (said := _said(value))] for name, values in lists.items()}
    languages = [*texts.get("language", ()), *texts.get("lang", ())]
    declared = Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day(day for name in _CHANGED for day in texts.get(name, ())),
        metadata=collect((name, value) for name, values in texts.items() if name not in _OURS for value in values),
        access=NOBODY if _states_access(rest) else access,
    )
    return next(iter(texts.get("title", ())), None), declared, rest


def _fields(text: str) -> tuple[Mapping[str, Any], Readers, str]:
    """Return the fields of the front matter, who may read the text by it, and the text after it."""
    fields: Any = {}
    is_toml = False
    if found := _YAML.match(text):
        front, end = found[1] or "", found.end()
        try:
            # The loader without any types: nothing to construct, no merge keys to multiply; aliases share.
            fields = yaml.load(front, Loader=yaml.BaseLoader) if len(front) <= _LONGEST else {}  # noqa: S506 - safer
        except (yaml.YAMLError, RecursionError, ValueError):  # such as "title: Part 1: Cats", which people do write
            fields = {name: value.strip("\"'") for name, value in _LINE.findall(front)}
    elif found := _TOML.match(text):
        front, end, is_toml = found[1] or "", found.end(), True
        with suppress(ValueError, RecursionError):
            fields = tomllib.loads(front) if len(front) <= _LONGEST else {}
    else:
        end = 0
        if _JSON.match(text):
            with suppress(ValueError, RecursionError):
                fields, end = json.JSONDecoder().raw_decode(text[:_LONGEST])
        front = text[:end]
        if not end:
            begin = text.lstrip("\ufeff \t\n")
            lines = begin[:_LONGEST].split("\n") if begin.startswith(("---", "+++", "{")) else ()
            return {}, NOBODY if any(map(_STATES_ACCESS.match, lines)) else None, text
    fields = fields if isinstance(fields, dict) else {}
    # of two lists, the parsers of YAML and JSON take the last; that of TOML takes none
    lists = 1 if is_toml else sum(map(bool, map(_STATES_ACCESS.match, front.split("\n"))))
    if _ACCESS in fields and lists < 2:
        with suppress(ValueError):
            return fields, readers_of(fields[_ACCESS]), text[end:]
    # nobody may read what says of access something else than one list
    return fields, NOBODY if _MENTIONS_ACCESS.search(front) else None, text[end:]


def _states_access(text: str) -> bool:
    """Return whether a block that looks like front matter stands elsewhere in a text, and states who may read it."""
    in_code = in_block = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            in_code, in_block = not in_code, False
        elif in_code:
            continue
        elif _DELIMITER.match(line):
            in_block = True
        elif in_block:
            if _STATES_ACCESS.match(line):
                return True
            in_block = _NAMES.match(line) is not None
    return False


def _said(value: object) -> str:
    """Return a value as it is written in YAML; empty where it is no single one."""
    if isinstance(value, date | time):  # of TOML
        return value.isoformat()
    said = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, str | int | float) else ""
    return "" if said in ("~", "null") else said


_ALERT = re.compile(r"\[!([\w-]+)\][+-]?[ \t]*([^\n]*)(\n|$)")
_TASK = re.compile(r"\[[ xX/-]\](?=\s|$)")
_ABBREVIATION = re.compile(r"^\*\[([^\[\]\n]{1,100})\]:", re.MULTILINE)
_CONTENTS = frozenset({"[TOC]", "[toc]", "[[toc]]", "[[TOC]]", "[[_TOC_]]", "${toc}", "{:toc}"})
_HEADING_COMMENT = re.compile(r"\{/\*\s*#([\w-]+)\s*\*/\}$")
_ROW_WITH_CODE = re.compile(r"^(?=[^\n`]*\|)[^\n`]*`[^\n]*\|[^\n]*", re.MULTILINE)
_CODE_SPAN = re.compile(r"(?<!`)(`++)[^`\n]+\1(?!`)")
_UNESCAPED_PIPE = re.compile(r"(?<!\\)\|")
_HIDDEN_PIPE = "\ufdd0"  # no character


def _parser(*, is_mdx: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    deflist_plugin(parser)
    # without blank lines, or the end of each formula would be searched for to the end of the text
    dollarmath_plugin(parser, allow_labels=False, allow_blank_lines=False)
    parser.disable("math_inline")  # begins in code, and at amounts of money
    ruler = parser.block.ruler
    everywhere: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    ruler.at("fence", blocks.read_fence, everywhere)
    ruler.at("html_block", blocks.read_html, {"alt": ["paragraph", "reference", "blockquote"]})
    ruler.before("reference", "footnote_def", footnote_def, {"alt": ["paragraph", "reference"]})
    for rule in (blocks.read_box, blocks.read_colons, blocks.read_line):
        ruler.before("fence", rule.__name__, rule, everywhere)
    for rule in (blocks.read_module, blocks.read_highlight, blocks.read_tags):
        ruler.before("fence", rule.__name__, rule)
    parser.core.ruler.before("block", "hide_pipes", _hide_pipes)
    parser.core.ruler.before("inline", "before_inline", _before_inline)
    parser.core.ruler.push("footnotes", _place_footnotes)
    parser.inline.ruler.before("backticks", "dialects", read_mark)
    return parser.disable("code") if is_mdx else parser


def _hide_pipes(state: StateCore) -> None:
    """Hide pipes in code from the rule of tables, which would end a cell there."""
    state.src = _ROW_WITH_CODE.sub(
        lambda row: _CODE_SPAN.sub(lambda code: _UNESCAPED_PIPE.sub(_HIDDEN_PIPE, code[0]), row[0]), state.src
    )


def _before_inline(state: StateCore) -> None:
    """Take off the marks at the beginning and end of blocks."""
    tokens = state.tokens
    for place, token in enumerate(tokens):
        token.content = token.content.replace(_HIDDEN_PIPE, "|")
        if token.type != "inline" or not token.content or not place:
            continue
        opening, outer = tokens[place - 1], tokens[place - 2].type if place > 1 else ""
        if opening.type == "heading_open":
            token.content = _without_id(opening, token.content)
        elif opening.type == "paragraph_open":
            if outer == "list_item_open":
                token.content = _TASK.sub("", token.content, count=1) if token.content[0] == "[" else token.content
            elif outer == "blockquote_open" and (alert := _ALERT.match(token.content)):
                title = alert[2].strip() or alert[1].replace("-", " ").capitalize()
                token.content = f"{title}{'  ' if alert[3] else ''}{token.content[alert.start(3) :]}"
            elif token.content in _CONTENTS:
                token.content = ""
            elif outer == "heading_close" and (attributes := ATTRIBUTES.fullmatch(token.content)) and attributes[1]:
                token.content = _without_id(tokens[place - 4], token.content)
            elif token.content.startswith("*["):
                token.content = _ABBREVIATION.sub(r"\1:", token.content)


def _without_id(heading: Token, content: str) -> str:
    """Return a heading without the attributes at its end; their id becomes that of the heading."""
    begin = content.rfind("{")
    attributes = attributes_in(ATTRIBUTES.fullmatch(content, begin) if begin >= 0 else None)
    if comment := _HEADING_COMMENT.match(content, begin):
        attributes = [f"#{comment[1]}"]
    if attributes is None:
        return content
    for one in attributes:
        if one.startswith("#"):
            heading.attrSet("id", one[1:])
    return content[:begin].rstrip()


def _place_footnotes(state: StateCore) -> None:
    """Move the text of footnotes to the end of the section in which they are noted first."""
    texts: dict[str, list[Token]] = {}
    others: list[Token] = []
    current = others
    for token in state.tokens:
        if token.type == "footnote_reference_open":
            current = texts.setdefault(token.meta["label"], [])
        elif token.type == "footnote_reference_close":
            current = others
        else:
            current.append(token)
    for label, tokens in texts.items():
        inline = next((token for token in tokens if token.type == "inline"), None)
        if inline is not None and inline.children is not None:
            inline.children.insert(0, Token("text", "", 0, content=f"[{label}] "))
    placed: list[Token] = []
    due: list[Token] = []
    for token in others if texts else ():
        if token.type == "heading_open" and not token.level:
            placed += due
            due = []
        placed.append(token)
        for child in token.children or ():
            due += texts.pop(child.meta.get("footnote", ""), ())
    if texts or placed:
        state.tokens = [*placed, *due, *(token for tokens in texts.values() for token in tokens)]


PARSER, MDX_PARSER = _parser(is_mdx=False), _parser(is_mdx=True)


_MOST_LINES = 200_000
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


class Rendered(NamedTuple):
    """A Markdown text as HTML, with what its front matter declares."""

    html: str
    title: str | None
    declared: Declared


def read(body: bytes, charset: str | None, *, is_mdx: bool = False) -> Extraction:
    """Read a Markdown text."""
    rendered = render(decode(body, charset, markup=False), is_mdx=is_mdx)
    found = extract(rendered.html)
    return Extraction(rendered.title or found.title, found.sections, rendered.declared)


def read_mdx(body: bytes, charset: str | None) -> Extraction:
    """Read the text of an MDX file, and the words in its components that a reader sees."""
    return read(body, charset, is_mdx=True)


def render(text: str, *, is_mdx: bool = False) -> Rendered:
    """Return Markdown as HTML, without its front matter; raises ParseError if it has too many lines.

    Headings get the ids they name, else those GitHub would give them. An import or export of JavaScript at the
    beginning tells MDX from Markdown.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > _MOST_LINES:
        raise ParseError(f"more than {_MOST_LINES:,} lines of Markdown")
    title, declared, text = split_front_matter(text)
    is_mdx = is_mdx or ESM.match(text.lstrip("\n")) is not None
    parser, env = (MDX_PARSER if is_mdx else PARSER), {IS_MDX: is_mdx}
    tokens = parser.parse(text, env)
    taken: Counter[str] = Counter()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.attrGet("id") is None:
            words = (token.content for token in inline.children or () if token.type in ("text", "code_inline"))
            slug = _NOT_IN_SLUG.sub("", "".join(words).strip().lower()).replace(" ", "-")
            opening.attrSet("id", f"{slug}-{taken[slug]}" if taken[slug] else slug)
            taken[slug] += 1
    html = parser.renderer.render(tokens, parser.options, env)
    return Rendered(html, title, declared)

"""A parser of Markdown with what its dialects add: text stays, marks go, and code keeps all of them as they are.

The dialects are those of GitHub, Docusaurus, VitePress, MkDocs, Hugo, Jekyll, mdBook, MyST, Pandoc and Obsidian. What
they have in common is read by one rule each: boxes of any name, tags of any template, directives of any extension.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote.index import footnote_def

from indexer.read.markup.blocks import (
    read_box,
    read_colons,
    read_fence,
    read_highlight,
    read_html,
    read_line,
    read_module,
    read_tags,
    text_token,
)
from indexer.read.markup.inline import ATTRIBUTES, attributes_in, read_mark

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
    block = parser.block.ruler
    everywhere: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block.at("fence", read_fence, everywhere)
    block.at("html_block", read_html, {"alt": ["paragraph", "reference", "blockquote"]})
    block.before("reference", "footnote_def", footnote_def, {"alt": ["paragraph", "reference"]})
    for name, rule in (("boxes", read_box), ("colons", read_colons), ("lines", read_line)):
        block.before("fence", name, rule, everywhere)
    for name, rule in (("modules", read_module), ("highlights", read_highlight), ("tags", read_tags)):
        block.before("fence", name, rule)
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
    found = ATTRIBUTES.fullmatch(content, begin) if begin >= 0 else None
    attributes = attributes_in(found) if found else None
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
    if not texts:
        return
    for label, tokens in texts.items():
        inline = next((token for token in tokens if token.type == "inline"), None)
        if inline is not None and inline.children is not None:
            inline.children.insert(0, text_token(f"[{label}] "))
    placed: list[Token] = []
    due: list[Token] = []
    for token in others:
        if token.type == "heading_open" and not token.level:
            placed += due
            due = []
        placed.append(token)
        for child in token.children or ():
            due += texts.pop(child.meta.get("footnote", ""), ())
    state.tokens = [*placed, *due, *(token for tokens in texts.values() for token in tokens)]


PARSER, MDX_PARSER = _parser(is_mdx=False), _parser(is_mdx=True)

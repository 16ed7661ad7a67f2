"""Blocks of Markdown's dialects: boxes, tabs, directives, containers, tags and modules on lines of their own.

Each function is a rule of the parser: it returns whether a block of its kind begins at a line, and writes its tokens.
"""

import re
from collections.abc import Sequence

from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.fence import fence, make_fence_rule
from markdown_it.rules_block.html_block import html_block
from markdown_it.token import Token

from indexer import notes
from indexer.read.markup.restructured import CODE, NOT_HERE, to_html
from indexer.read.markup.tags import IS_MDX, element_at, shown_words, tag_at, unescaped

_DIRECTIVE = re.compile(r"\{([A-Za-z][\w:+-]*)\}[ \t]*(.*)")
_ENGINE = re.compile(r"\{([A-Za-z]\w*)[ ,][^{}]*\}")  # {r setup, echo=FALSE}
_FILE = re.compile(r"\S*/\S*|\S+\.[A-Za-z]\w{0,4}")
_SESSION = re.compile(r"\s*(?:\$|>>>)[ ]\S")  # in a directive of some extension
_OPTION = re.compile(r":[\w-]+:(?:\s|$)")
_BRACKETED = re.compile(r"[\w+#.-]*\s*(?:\{[^{}]*\}\s*)?\[([^\[\]]+)\]")  # ```sh [npm]
_FILE_TITLE = re.compile(r"\b(?:title|filename|file)=(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'{}]+))")
_COLONS = re.compile(r":{3,}(?=[ \t]*(?:$|[\w{\[]))|/{3,}(?=[ \t]*$|[ ]\w[\w-]*[ ]*(?:\||$))|@tab(?=[: ])")
_COLON_NAME = re.compile(r"[ \t]*(?::active)?(?:\{[^{}]*\}|[\w:.+-]+)?")
_BOX = re.compile(r"(?:!!!|\?\?\?\+?)[ ]+(.*)|===[!+]?[ ]+(?=[\"'])(.*)")
_BOX_KIND = re.compile(r"[\w -]*")
_ESM = re.compile(
    r"import[ ]{1,9}(?:[\w*{}$, \t]{1,300}\bfrom[ ]{1,9})?[\"'][^\"'\n]*[\"'];?[ ]*$|"
    r"import\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?\{\s*$|"
    r"import\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?\{[^{}\n]*\}\s*from\b|"
    r"export\s+(?:const|let|var)\s+[\w$]+\s*[=:]|export\s+(?:async\s+)?(?:function|class)\b|"
    r"export\s+default\s+(?:[({]|(?:async\s+)?(?:function|class)\b|[\w$]+[(;]?)|export\s*[{*]",
    re.MULTILINE,
)
_LINES = re.compile(  # what stands alone on a line and is no text: targets, includes
    r"\([\w:./ -]+\)=$|(?P<include>;?-+8<-+(?:$|[ ].*)|<<<[ ]*[@./].*|\{\{#\w+[^{}]*\}\}$|@include[\w-]*[(:].*)"
)
_INCLUDE = re.compile(r"\s*+(?:\{\{#[^{}\n]*\}\}\s*|-+8<-+[ ].*)?")
_SHOWS_TEMPLATES = frozenset({"", "md", "markdown", "mdx", "handlebars", "hbs", "mustache", "html", "text", "txt"})
_HIGHLIGHT = re.compile(r"\{(?:\{[<%]|%)-?[ ]*(highlight|codeblock|code-block)(?:[ ]++[\"']?([\w+-]*+))?[^{}\n]*+\}+$")
_HIGHLIGHT_END = r"[ \t]*\{(?:\{[<%%]|%%)-?[ ]*(?:/|end)%s[ ]*-?[%%>]\}?\}[ \t]*$"
_PREFORMATTED = frozenset({"script", "style", "pre", "textarea"})
_HTML = re.compile(r"</?([a-z][\w-]*)(?=[\s/>])")
_PARSES_WITHIN = re.compile(r"\smarkdown(?:=|[\s>]|$)")
_LONGEST_MODULE = 400  # lines of an import or export

_colon_fence = make_fence_rule(markers=(":",), disallow_marker_in_info=())


def begins_like_mdx(text: str) -> bool:
    """Return whether the first line is an import or export of JavaScript."""
    return _ESM.match(text.lstrip("\n")) is not None


def _text_of(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _begins_with(state: StateBlock, line: int, signs: str) -> bool:
    """Return whether one of these signs begins a line: asked first, as every rule sees every line."""
    place = state.bMarks[line] + state.tShift[line]
    return place < state.eMarks[line] and state.src[place] in signs and not state.is_code_block(line)


def _push_text(state: StateBlock, text: str, *, is_literal: bool = False, is_hidden: bool = False) -> None:
    """Write a paragraph; the tags of a hidden one are not written."""
    if not text.strip():
        return
    opening = state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children = ("", [text_token(text)]) if is_literal else (text, [])
    closing = state.push("paragraph_close", "p", -1)
    opening.hidden = closing.hidden = is_hidden


def text_token(text: str) -> Token:
    """Return the token of a text without marks."""
    token = Token("text", "", 0)
    token.content = text
    return token


def _within(state: StateBlock, start: int, end: int, indent: int = 0) -> None:
    """Parse lines as blocks of their own; those of a box may be indented."""
    before, state.lineMax = state.lineMax, end
    state.level += 1
    state.blkIndent += indent
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= indent
    state.level -= 1
    state.lineMax = before


def read_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a block between fences: code, or a directive."""
    if not fence(state, start, end, silent):
        return False
    if not silent:
        _finish_fence(state, start)
    return True


def _finish_fence(state: StateBlock, start: int) -> None:
    """Give a block of code its language and title; make text of it where it is a directive."""
    token, after = state.tokens[-1], state.line
    info = token.info.strip()
    engine, directive = _ENGINE.match(info), _DIRECTIVE.match(info)
    language = re.split(r"[\s{:,\[]", info.lstrip("{. "))[0].rstrip("}")
    if directive and directive[1].lower() not in CODE and not _SESSION.match(token.content):
        state.tokens.pop()
        _directive(state, directive[1].lower(), directive[2], token.content, start + 1)
        state.line = after
        return
    if directive or engine:
        language = directive[2] if directive and directive[2].isalnum() else ""
        token.content = "\n".join(_without_options(token.content.split("\n"))) if directive else token.content
    title = shown_words(f" {info}") or next(iter(filter(None, _groups(_FILE_TITLE.search(info)))), "")
    label = _BRACKETED.match(info)
    lines = token.content.split("\n")
    if language not in _SHOWS_TEMPLATES and token.content.strip() and all(map(_INCLUDE.fullmatch, lines)):
        state.tokens.pop()
        notes.add("a file that Markdown includes was left out")
    elif said := title or (label[1] if label else ""):
        state.tokens.pop()
        _push_text(state, said, is_literal=True)
        state.tokens.append(token)
    token.info, token.content = language, unescaped(token.content)


def _groups(found: re.Match[str] | None) -> Sequence[str | None]:
    return found.groups() if found else ()


def _directive(state: StateBlock, name: str, argument: str, content: str, start: int) -> None:
    """Write the text of a directive: its argument, if that is no file, and what it contains."""
    if name in NOT_HERE:
        notes.add(f"a directive was left out: {name}")
        return
    if name == "eval-rst":
        state.push("html_block", "", 0).content = to_html(content)
        return
    if not _FILE.fullmatch(argument):
        _push_text(state, argument)
    lines = content.split("\n")[:-1]
    first = len(lines) - len(_without_options(lines))
    _within(state, start + first, start + len(lines))


def _without_options(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a directive after its options, in colons or as YAML."""
    first = 0
    if lines and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:50]):
        first = next(place for place, line in enumerate(lines[1:], 2) if line.strip() == "---")
    while first < len(lines) and _OPTION.match(lines[first].lstrip()):
        first += 1
    return lines[first:]


def read_colons(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a line that opens or closes a container: only its title is text."""
    line = _text_of(state, start) if _begins_with(state, start, ":/@") else ""
    signs = _COLONS.match(line)
    if signs is None:
        return False
    if silent:
        return True
    rest = line[signs.end() :].strip().rstrip(":").rstrip()
    directive = _DIRECTIVE.match(rest)
    kind = directive[1].lower() if directive else rest
    if signs[0][0] == ":" and kind in CODE | NOT_HERE | {"eval-rst"} and _colon_fence(state, start, end, silent):
        state.tokens[-1].info = rest
        _finish_fence(state, start)
        return True
    state.line = start + 1
    while directive and state.line < end and _OPTION.match(_text_of(state, state.line)):
        state.line += 1
    named = _COLON_NAME.match(rest)
    title = rest[named.end() if named else 0 :].strip(" |\t") if signs[0] != "@tab" else rest.removeprefix(":active")
    title = title.partition("{")[0].strip()
    if title.startswith("["):
        title = title[1:].rpartition("]")[0]
    _push_text(state, shown_words(rest) if '="' in rest else title)
    return True


def read_box(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a box or tab of MkDocs: a line of signs with a title, and what is indented below."""
    found = _BOX.fullmatch(_text_of(state, start)) if _begins_with(state, start, "!?=") else None
    kind = _BOX_KIND.match(found[1] or found[2] or "") if found else None
    if kind is None or kind.string[kind.end() : kind.end() + 1] not in ("", '"', "'"):
        return False
    if not silent:
        quoted = kind.string[kind.end() :]
        _push_text(state, quoted[1:].rpartition(quoted[0])[0] if quoted else "".join(kind[0].split()[:1]).capitalize())
        state.line = start + 1
        inner = state.skipEmptyLines(state.line)
        if inner < end and state.sCount[inner] - state.blkIndent >= 4:
            _within(state, inner, end, indent=4)
    return True


def read_line(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave out a line that is no text."""
    found = _LINES.match(_text_of(state, start)) if _begins_with(state, start, "(;-<{@") else None
    if found is None:
        return False
    if not silent:
        if found["include"]:
            notes.add("a file that Markdown includes was left out")
        state.line = start + 1
    return True


def read_module(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave out an import or export of JavaScript, up to an empty line outside of its brackets."""
    if (
        state.level
        or state.sCount[start]
        or not _begins_with(state, start, "ie")
        or not _ESM.match(state.src, state.bMarks[start], state.eMarks[start])
    ):
        return False
    depth, line = 0, start
    end = min(end, start + (1 if state.env.get("unclosed_module") else _LONGEST_MODULE))
    while line < end and (depth > 0 or not state.isEmpty(line)):
        text = _text_of(state, line)
        if line > start and depth <= 0 and not _ESM.match(text) and not text.startswith((".", "}", ")", "]")):
            break
        depth += sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
        line += 1
    state.env["unclosed_module"] = depth > 0
    state.line = start + 1 if depth > 0 else line  # brackets that nobody closes do not swallow the text
    return True


def read_highlight(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a block of code between tags of a template."""
    found = _HIGHLIGHT.match(_text_of(state, start)) if _begins_with(state, start, "{") else None
    if found is None or state.env.get("unclosed"):
        return False
    ending = re.compile(_HIGHLIGHT_END % found[1])
    for line in range(start + 1, end):
        if ending.match(state.src, state.bMarks[line], state.eMarks[line]):
            token = state.push("fence", "code", 0)
            token.info, token.markup = found[2] or "", "```"
            token.content = unescaped(state.getLines(start + 1, line, state.sCount[start], True))
            state.line = line + 1
            return True
    state.env["unclosed"] = True
    return False


def read_tags(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read lines that are nothing but tags, which may span empty lines."""
    place, limit = state.bMarks[start] + state.tShift[start], state.eMarks[end - 1]
    if not _begins_with(state, start, "{<%"):
        return False
    words: list[str] = []
    while place < limit and state.src[place] != "\n":
        tag = tag_at(state.src, place, limit, state.env)
        if tag is None:
            return False
        words.append(tag[1])
        place = state.skipSpaces(tag[0])
    state.line = start + 1
    while state.line < end and state.eMarks[state.line - 1] < place:
        state.line += 1
    for said in words:
        _push_text(state, said, is_literal=True)
    return True


def read_html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read HTML; where Markdown is parsed within it, only its tags."""
    place, limit = state.bMarks[start] + state.tShift[start], state.eMarks[start]
    found = None if silent or not _begins_with(state, start, "<") else _HTML.match(state.src, place, limit)
    if found and found[1] not in _PREFORMATTED:
        tag = state.src[place : (state.src.find(">", place, limit) + 1) or limit]
        if state.env.get(IS_MDX) or _PARSES_WITHIN.search(tag):
            element = element_at(state.src, place, state.eMarks[end - 1], state.env)
            state.line = start + 1
            while element and state.line < end and state.eMarks[state.line - 1] < element[0]:
                state.line += 1
            _push_text(state, state.getLines(start, state.line, state.blkIndent, False).strip(), is_hidden=True)
            return True
    return html_block(state, start, end, silent)

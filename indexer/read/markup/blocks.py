"""Read what Markdown's dialects add to its blocks: tags of templates and components, directives, boxes, containers.

Tags are shortcodes of Hugo, tags of Liquid and Jinja, comments of all of them, and of MDX the components and
expressions. What stands between an opening and a closing tag is Markdown like the rest.
"""

import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.fence import fence, make_fence_rule
from markdown_it.rules_block.html_block import html_block
from markdown_it.token import Token

from indexer import notes
from indexer.read.markup.restructured import CODE, NOT_HERE, OPTION, to_html

IS_MDX = "is_mdx"  # key of the parser's environment: whether there are expressions in braces
_LONGEST = 4_000  # characters of a tag
_LONGEST_COMMENT = 20_000
_BUDGET = 20_000_000  # characters looked at in vain for the ends of tags, in one document
_SHOWN = (  # arguments that are shown to readers
    "title subtitle label header heading headline caption summary description question answer alt alt-text alt_text "
    "text content message tooltip tabName filename file"
).split()
_ARGUMENT = r"(?:^|[\s{,(])[\"']?(?:%s)[\"']?\s{0,9}[:=]\s{0,9}\{?\s{0,9}(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)"
_SHOWN_ARGUMENT = re.compile(_ARGUMENT % "|".join(_SHOWN))
_NAME_ARGUMENT = re.compile(_ARGUMENT % "value|name")  # the label of a tab that has no other
_ITEMS = re.compile(r"\bitems=\{?\s{0,9}\[([^\[\]]*)\]")  # labels of several tabs
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`")
_NAME = re.compile(r"[\s<%/-]*([\w.-]*)")
_PATH = re.compile(r"[^\s/\\]*+[/\\]\S*|\S+\.\w{2,5}|[^\s$#]*+[$#]\S*")
_COMPONENT = re.compile(r"</?[A-Z][\w.]*(?=[\s/>])|</?>")
_ELEMENT = re.compile(r"</?([a-z][\w-]*)(?=[\s/>])")
_TAG_PART = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`|[{}<>]")
_END_BLOCK = {kind: re.compile(rf"\{{%-?\s{{0,9}}end{kind}\s{{0,9}}-?%\}}") for kind in ("raw", "comment")}
_ESCAPED = re.compile(r"\{\{([<%])/\*([^{}]*)\*/([>%])\}\}|\\(\{\{#)")
_PLAIN_ATTRIBUTE = re.compile(r"\s[\w:-]+=(?:\"[^\"]*\"|'[^']*')")

Environment = MutableMapping[str, Any]
Tag = tuple[int, str]  # where it ends, and the words in it that a reader sees


def tag_at(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    """Return the tag, comment or expression that begins at a place of a text and ends before `end`, or None.

    `environment` is the parser's; it counts what was looked at in vain, so that hostile texts take linear time.
    """
    opening = source[start : start + 3]
    if opening.startswith("{{"):
        close = _find(source, "}}", start + 2, end, environment)
        if close < 0:
            return None
        tag = source[start : close + 2]
        if _ESCAPED.fullmatch(tag):
            return close + 2, unescaped(tag)
        if tag[2] in "<%":
            return close + 2, shown_words(tag[3:-3], is_positional=True)
        said = _first(_QUOTED.match(tag[2:-2].strip(" -")))  # a text that is perhaps translated
        return close + 2, "" if _PATH.fullmatch(said) else said
    if opening.startswith("{%"):
        close = _find(source, "%}", start + 2, end, environment)
        if close < 0:
            return None
        inside, after = source[start + 2 : close], close + 2
        name = _NAME.match(inside)
        kind = name[1] if name else ""
        if kind in ("raw", "comment"):
            if ending := _END_BLOCK[kind].search(source, after, min(end, after + _LONGEST_COMMENT)):
                return ending.end(), source[after : ending.start()] if kind == "raw" else ""
            _spend(environment, _LONGEST_COMMENT)
        return after, shown_words(inside, is_positional=not kind.startswith(("end", "include", "link", "post_url")))
    closer = ""  # of a comment
    if opening.startswith("{#") and opening[2:] in (" ", "-", "\n", "#"):
        closer = "#}"
    elif opening == "{/*":
        closer = "*/}"
    elif opening.startswith("%%") and not source[start - 1 : start].strip():
        closer = "%%"
    if closer:
        close = _find(source, closer, start + len(closer), end, environment, _LONGEST_COMMENT)
        return None if close < 0 else (close + len(closer), "")
    is_expression = opening.startswith("{") and environment.get(IS_MDX)
    component = _COMPONENT.match(source, start)
    if not is_expression and not component:
        return None
    is_whole = component and component[0][-1] == ">"
    close = component.end() if component and is_whole else _balanced(source, start, end, environment)
    if close < 0:
        return None
    inside = source[start + 1 : close - 1]
    return close, _first(_QUOTED.fullmatch(inside.strip())) if is_expression else shown_words(inside)


def element_at(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    """Return where an HTML tag with values in braces ends, and the tag without these; None if there is none."""
    found = _ELEMENT.match(source, start)
    close = _balanced(source, start, end, environment) if found else -1
    if found is None or close < 0:
        return None
    return close, f"{found[0]}{''.join(_PLAIN_ATTRIBUTE.findall(source[start:close]))}>"


def shown_words(inside: str, *, is_positional: bool = False) -> str:
    """Return the arguments of a tag that a reader sees; `is_positional`: one without a name may be a title."""
    name = _NAME.match(inside)
    is_tab = name is not None and "tab" in name[1].lower()
    found = [_first(one) for one in _SHOWN_ARGUMENT.finditer(inside)]
    if is_tab and not found:
        found = [_first(one) for one in _NAME_ARGUMENT.finditer(inside)]
    if is_tab and (items := _ITEMS.search(inside)):
        found += [_first(one) for one in _QUOTED.finditer(items[1])]
    if is_positional and not found and name is not None:
        said = _first(_QUOTED.match(inside[name.end() :].lstrip()))
        found = [said] if (" " in said or said[:1].isupper()) and not _PATH.fullmatch(said) else []
    return ", ".join(" ".join(one.split()) for one in found)


def unescaped(code: str) -> str:
    """Return code in which escaped tags are written as a reader sees them."""
    return _ESCAPED.sub(lambda one: one[4] or f"{{{{{one[1]}{one[2]}{one[3]}}}}}", code) if "{{" in code else code


def _find(source: str, closer: str, start: int, end: int, environment: Environment, most: int = _LONGEST) -> int:
    close = source.find(closer, start, min(end, start + most)) if _spend(environment, 0) else -1
    if close < 0:
        _spend(environment, most)
    return close


def _balanced(source: str, start: int, end: int, environment: Environment) -> int:
    """Return the end of an expression or tag, whose braces are balanced; -1 where it has none."""
    if not _spend(environment, 0):
        return -1
    is_tag = source[start] == "<"
    depth = 0
    for part in _TAG_PART.finditer(source, start + is_tag, min(end, start + _LONGEST)):
        sign = part[0]
        depth += (sign == "{") - (sign == "}")
        if is_tag and depth <= 0 and sign in "<>":
            return part.end() if sign == ">" else -1
        if depth <= 0 and sign == "}" and not is_tag:
            return part.end()
    _spend(environment, 50 * _LONGEST)
    return -1


def _spend(environment: Environment, characters: int) -> bool:
    environment["budget"] = environment.get("budget", _BUDGET) - characters
    return bool(environment["budget"] >= 0)


def _first(found: re.Match[str] | None) -> str:
    return next((group for group in found.groups() if group is not None), "") if found else ""


_DIRECTIVE = re.compile(r"\{([A-Za-z][\w:+-]*)\}[ \t]*(.*)")
_FILE = re.compile(r"[^\s/]*+/\S*|\S+\.[A-Za-z]\w{0,4}")
_BRACKETED = re.compile(r"[\w+#.-]*\s*(?:\{[^{}]*\}\s*)?\[([^\[\]]+)\]")  # ```sh [npm]
_COLONS = re.compile(r":{3,}(?=[ \t]*(?:$|[\w{\[]))|/{3,}(?=[ \t]*$|[ ]\w[\w-]*[ ]*(?:\||$))|@tab(?=[: ])")
_COLON_NAME = re.compile(r"[ \t]*(?:\{[^{}]*\}|[\w:.+-]+)?")
_BOX = re.compile(
    r"(?:(?:!!!|\?\?\?\+?)[ ]++(?P<kind>[\w -]*+)|===[!+]?[ ]++(?=[\"']))(?:([\"'])(?P<title>.*)\2(?:(?!\2).)*+)?"
)
ESM = re.compile(
    r"import[ ]{1,9}(?:[\w*{}$, \t]{1,300}\bfrom[ ]{1,9})?[\"'][^\"'\n]*[\"'];?[ ]*$|"
    r"import\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?\{\s*$|"
    r"import\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?\{[^{}\n]*\}\s*from\b|"
    r"export\s+(?:const|let|var)\s+[\w$]+\s*[=:]|export\s+(?:async\s+)?(?:function|class)\b|"
    r"export\s+default\s+(?:[({]|(?:async\s+)?(?:function|class)\b|[\w$]+[(;]?)|export\s*[{*]",
    re.MULTILINE,
)
_LINES = re.compile(  # what stands alone on a line and is no text: targets, includes
    r"\([\w:./ -]+\)=$|(?P<include>;?-+8<-+(?:$|[ ].*)|<<<[ ]*[@./].*|\{\{#\w[^{}]*\}\}$)"
)
_INCLUDE = re.compile(r"\s*+(?:\{\{#[^{}\n]*\}\}\s*|-+8<-+[ ].*)?")
_SHOWS_TEMPLATES = frozenset({"", "md", "markdown", "mdx", "handlebars", "hbs", "mustache", "html", "text", "txt"})
_HIGHLIGHT = re.compile(r"\{(?:\{[<%]|%)-?[ ]*(highlight|codeblock|code-block)(?:[ ]++[\"']?([\w+-]*+))?[^{}\n]*+\}+$")
_HIGHLIGHT_END = r"[ \t]*\{(?:\{[<%%]|%%)-?[ ]*(?:/|end)%s[ ]*-?[%%>]\}?\}[ \t]*$"
_PARSES_WITHIN = re.compile(r"\smarkdown(?:=|[\s>]|$)")
_LONGEST_MODULE = 400  # lines of an import or export

_colon_fence = make_fence_rule(markers=(":",), disallow_marker_in_info=())


def _line_at(state: StateBlock, line: int, signs: str = "") -> str:
    """Return the text of a line; empty if it is code, or begins with none of these signs."""
    text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
    return text if not signs or (text[:1] in signs and not state.is_code_block(line)) else ""


def _push_text(state: StateBlock, text: str, *, is_literal: bool = False, is_hidden: bool = False) -> None:
    """Write a paragraph; the tags of a hidden one are not written."""
    if not text.strip():
        return
    opening = state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children = ("", [Token("text", "", 0, content=text)]) if is_literal else (text, [])
    closing = state.push("paragraph_close", "p", -1)
    opening.hidden = closing.hidden = is_hidden


def _within(state: StateBlock, start: int, end: int, indent: int = 0) -> None:
    """Parse lines as blocks of their own; those of a box may be indented."""
    before, state.lineMax = state.lineMax, end
    state.level += 1
    state.blkIndent += indent
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= indent
    state.level -= 1
    state.lineMax = before


def read_fence(
    state: StateBlock, start: int, end: int, silent: bool, rule: Callable[..., bool] = fence, info: str = ""
) -> bool:
    """Read a block between fences: code, with its language and title, or the text of a directive."""
    is_fence = rule(state, start, end, silent)
    if not is_fence or silent:
        return is_fence
    token, after = state.tokens.pop(), state.line
    info = info or token.info.strip()
    directive = _DIRECTIVE.match(info)
    language = re.split(r"[\s{:,\[]", info.lstrip("{. "))[0].rstrip("}")
    if directive and directive[1].lower() not in CODE:
        name, argument = directive[1].lower(), directive[2]
        if name in NOT_HERE:
            notes.add(f"a directive was left out: {name}")
        elif name == "eval-rst":
            state.push("html_block", "", 0).content = to_html(token.content)
        else:
            _push_text(state, "" if _FILE.fullmatch(argument) else argument)
            lines = token.content.split("\n")[:-1]
            first = len(lines) - len(_without_options(lines))
            _within(state, start + 1 + first, start + 1 + len(lines))
        state.line = after
        return True
    if directive:
        language = directive[2] if directive[2].isalnum() else ""
        token.content = "\n".join(_without_options(token.content.split("\n")))
    lines = token.content.split("\n")
    if language not in _SHOWS_TEMPLATES and token.content.strip() and all(map(_INCLUDE.fullmatch, lines)):
        notes.add("a file that Markdown includes was left out")
    else:
        label = _BRACKETED.match(info)
        title = shown_words(f" {info}") or (label[1] if label else "")
        _push_text(state, title, is_literal=True)
        state.tokens.append(token)
    token.info, token.content = language, unescaped(token.content)
    return True


def _without_options(lines: Sequence[str]) -> Sequence[str]:
    first = 0
    if lines and lines[0].strip() == "---":
        first = next((place for place, line in enumerate(lines[1:50], 2) if line.strip() == "---"), 0)
    while first < len(lines) and OPTION.match(lines[first].lstrip()):
        first += 1
    return lines[first:]


def read_colons(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a line that opens or closes a container: only its title is text."""
    line = _line_at(state, start, ":/@").replace("@tab:active", "@tab")
    signs = _COLONS.match(line)
    if signs is None or silent:
        return signs is not None
    rest = line[signs.end() :].strip().rstrip(":").rstrip()
    directive = _DIRECTIVE.match(rest)
    kind = directive[1].lower() if directive else rest
    is_code = kind in CODE | NOT_HERE | {"eval-rst"}
    if is_code and read_fence(state, start, end, silent, _colon_fence, rest):
        return True
    state.line = start + 1
    while directive and state.line < end and OPTION.match(_line_at(state, state.line)):
        state.line += 1
    named = _COLON_NAME.match(rest) if signs[0] != "@tab" else None
    title = rest[named.end() if named else 0 :].strip(" |\t").partition("{")[0].strip()
    if title.startswith("["):
        title = title[1:].rpartition("]")[0]
    _push_text(state, shown_words(rest) if '="' in rest else title)
    return True


def read_box(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a box or tab of MkDocs: a line of signs with a title, and what is indented below."""
    found = _BOX.fullmatch(_line_at(state, start, "!?="))
    if found is None or silent:
        return found is not None
    kind, title = found["kind"] or "", found["title"]
    _push_text(state, "".join(kind.split()[:1]).capitalize() if title is None else title)
    state.line = start + 1
    inner = state.skipEmptyLines(state.line)
    if inner < end and state.sCount[inner] - state.blkIndent >= 4:
        _within(state, inner, end, indent=4)
    return True


def read_line(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave out a line that is no text."""
    found = _LINES.match(_line_at(state, start, "(;-<{"))
    if found is not None and not silent:
        if found["include"]:
            notes.add("a file that Markdown includes was left out")
        state.line = start + 1
    return found is not None


def read_module(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave out an import or export of JavaScript, up to an empty line outside of its brackets."""
    if state.level or state.sCount[start] or not ESM.match(state.src, state.bMarks[start], state.eMarks[start]):
        return False
    depth, line = 0, start
    end = min(end, start + (1 if state.env.get("unclosed_module") else _LONGEST_MODULE))
    while line < end and (depth > 0 or not state.isEmpty(line)):
        text = _line_at(state, line)
        if line > start and depth <= 0 and not ESM.match(text) and not text.startswith((".", "}", ")", "]")):
            break
        depth += sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
        line += 1
    state.env["unclosed_module"] = depth > 0
    state.line = start + 1 if depth > 0 else line  # brackets that nobody closes do not swallow the text
    return True


def read_highlight(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a block of code between tags of a template."""
    found = _HIGHLIGHT.match(_line_at(state, start, "{"))
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


def _go_past(state: StateBlock, start: int, place: int, end: int) -> None:
    state.line = start + 1
    while state.line < end and state.eMarks[state.line - 1] < place:
        state.line += 1


def read_tags(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read lines that are nothing but tags, which may span empty lines."""
    place, limit = state.bMarks[start] + state.tShift[start], state.eMarks[end - 1]
    words: list[str] = []
    if not _line_at(state, start, "{<%"):
        return False
    while place < limit and state.src[place] != "\n":
        tag = tag_at(state.src, place, limit, state.env)
        if tag is None:
            return False
        words.append(tag[1])
        place = state.skipSpaces(tag[0])
    _go_past(state, start, place, end)
    for said in words:
        _push_text(state, said, is_literal=True)
    return True


def read_html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read HTML; where Markdown is parsed within it, only its tags."""
    line = "" if silent else _line_at(state, start, "<")
    found = _ELEMENT.match(line + "\n")
    has_markdown = state.env.get(IS_MDX) or _PARSES_WITHIN.search(line.partition(">")[0] + ">")
    if not found or found[1] in ("script", "style", "pre", "textarea") or not has_markdown:
        return html_block(state, start, end, silent)
    place = state.bMarks[start] + state.tShift[start]
    element = element_at(state.src, place, state.eMarks[end - 1], state.env)
    _go_past(state, start, element[0] if element else place, end)
    _push_text(state, state.getLines(start, state.line, state.blkIndent, False).strip(), is_hidden=True)
    return True

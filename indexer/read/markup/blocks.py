"""Parse the blocks of Markdown dialects: directives, boxes, containers, properties, grid tables, and blocks of JSON.

Text between an opening and a closing tag is parsed as Markdown. The title and text of unknown blocks are kept.

| dialect | blocks | within lines |
|---|---|---|
| GitHub | alerts `> [!NOTE]`, task lists, tables | footnotes, `:emoji:`, generated ids of headings |
| MkDocs, pymdownx | `!!! note "Title"`, `=== "Tab"`, `--8<--` | `++ctrl+c++`, `{++new++}`, `^^new^^` |
| kramdown, Jekyll | `{:toc}`, `{::comment}`, `*[ABBR]: long form` | `{: .class}`, `{% tag %}`, `{{ value }}` |
| Pandoc, Quarto | grid tables, `::: {.note title="…"}`, `#| option` in cells | `[span]{.class}`, `^[note]`, `H~2~O` |
| MyST | directives of backticks and colons, `% comment`, `(target)=`, `+++` | roles `` {ref}`text` `` |
| Hugo, mdBook | `{{< shortcode "Title" >}}`, `{{#include x}}`, TOML front matter | shortcodes |
| MDX (Docusaurus, Mintlify, Fumadocs …) | components, `:::tip[T]`, `::leaf{}`, imports | `{/* comment */}` |
| VitePress | `::: code-group`, `<<< @/file`, `// [!code ++]` in code | components, `{{ value }}` |
| DocFX, Microsoft Learn | tabs `# [Title](#tab/id)`, `:::row:::`, `> [!div class]` | `[!INCLUDE[x](y)]`, `<xref:uid>` |
| Obsidian, Logseq | callouts, `%%comment%%`, `key:: value`, `#+BEGIN_TIP` | `[[page]]`, `^block-id`, `==marked==` |
| ReadMe | `[block:parameters]` with JSON | `<<variable>>` |
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile, groupby
from operator import itemgetter
from typing import Any

from docutils.parsers.rst.tableparser import GridTableParser, TableMarkupError
from docutils.statemachine import StringList
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.fence import fence, make_fence_rule
from markdown_it.rules_block.html_block import html_block
from markdown_it.token import Token

from indexer.read.markup.restructured import CODE, HIDDEN, OPTION, fields_of, to_html
from indexer.read.markup.tags import ELEMENT, IS_MDX, element_at, shown_words, tag_at, unescaped
from indexer.text import reader_notes

_DIRECTIVE = re.compile(r"\{([A-Za-z][\w:+-]*)\}[ \t]*(.*)")
_FILE = re.compile(r"[^\s/]*+/\S*|\S+\.[A-Za-z]\w{0,4}")
_BRACKETED = re.compile(r"[\w+#.-]*\s*(?:\{[^{}]*\}\s*)?\[([^\[\]]+)\]")  # "npm" in ```sh [npm]
_COLONS = re.compile(r":{3,}(?=[ \t]*(?:$|[\w{\[]))|::(?=[a-z][\w-]*[\[{])")
_COLON_NAME = re.compile(r"[ \t]*+[\w:.+-]*+[ \t]*+(?:\{[^{}]*\})?")
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
_MARK_LINE = re.compile(
    r"\([\w:./ -]+\)=|(?:\+\+\+|\^\^\^)(?:[ ].*)?|#\+(?:begin|end)_\w.*|(?P<comment>%(?:[ ].*)?)|"
    r"(?P<include>;?-+8<-+(?:[ ].*)?|<<<[ ]*[@./].*|\{\{#\w[^{}]*\}\})|"
    r"(?:\*\[(?P<abbreviation>[^\[\]]+)\]:|(?P<property>[^\W\d][\w./-]*)::)(?:[ ]++(?P<value>.*+))?",
    re.IGNORECASE,
)
_MACHINE_VALUE = re.compile(r"[\da-f-]{36}|true|false|\d*", re.IGNORECASE)
_INCLUDE = re.compile(r"\s*+(?:\{\{#[^{}\n]*\}\}\s*|-+8<-+[ ].*)?")
_SHOWS_TEMPLATES = frozenset({"", "md", "markdown", "mdx", "handlebars", "hbs", "mustache", "html", "text", "txt"})
_HIGHLIGHT = re.compile(r"\{(?:\{[<%]|%)-?[ ]*(highlight|codeblock|code-block)(?:[ ]++[\"']?([\w+-]*+))?[^{}\n]*+\}+$")
_HIGHLIGHT_END = r"[ \t]*\{(?:\{[<%%]|%%)-?[ ]*(?:/|end)%s[ ]*-?[%%>]\}?\}[ \t]*$"
_CELL_OPTION = re.compile(r"(?:#|//|--|%%?|;)\|[ ]?")
_HIGHLIGHTER_NOTE = re.compile(
    r"(?:(?:(?P<line>^[ \t]*+)|(?<![ \t])[ \t]*+)(?://|#|--|%|;|'|/\*|<!--|\{/\*)[ \t]*+(?:\[!code\b[^\[\]\n]*\]|"
    r"highlight-[a-z]+(?:-line)?\b(?:\{[\d,-]*\})?|\(\d+\)!)[ \t]*+(?:\*/\}?|-->)?)(?(line)[ \t]*(?:\n|\Z)|)",
    re.MULTILINE,
)
_PARSES_WITHIN = re.compile(r"\smarkdown(?:=|[\s>]|$)")
_MAX_MODULE_LINES = 400
_JSON_BLOCK = re.compile(r"\[block:[\w-]+\]")
_JSON_CELL = re.compile(r"(h|\d{1,4})-(\d{1,4})")
_GRID_RULE = re.compile(r"\+(?::?[-=]+:?\+)+")
_MAX_GRID_CHARACTERS = 100_000

_colon_fence = make_fence_rule(markers=(":",), disallow_marker_in_info=())


def _line_at(state: StateBlock, line: int, signs: str = "") -> str:
    """Return the text of a line. With `signs`, return "" for code, and for lines that do not begin with a sign."""
    text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
    return text if not signs or (text[:1] in signs and not state.is_code_block(line)) else ""


def _push_text(state: StateBlock, text: str, *, is_literal: bool = False, is_hidden: bool = False) -> None:
    """Append a paragraph to the tokens. If `is_hidden`, omit its <p> tags."""
    if not text.strip():
        return
    # The type is not `paragraph_open`, because consecutive paragraphs in a tight list would be joined to one line.
    opening = state.push("line_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children = ("", [Token("text", "", 0, content=text)]) if is_literal else (text, [])
    closing = state.push("line_close", "p", -1)
    opening.hidden = closing.hidden = is_hidden


def _push_fields(state: StateBlock, name: str, options: Sequence[str]) -> None:
    for field in fields_of(name, "\n".join(options)):
        _push_text(state, field)


def _push_blocks(state: StateBlock, text: str) -> None:
    """Parse a text as blocks, independently of the lines around it, and append the tokens."""
    inner = StateBlock(text, state.md, state.env, state.tokens)
    inner.level = state.level + 1
    state.md.block.tokenize(inner, 0, inner.lineMax)


def _push_code(state: StateBlock, code: str, language: str) -> None:
    token = state.push("fence", "code", 0)
    token.info, token.markup, token.content = language, "```", unescaped(code)


def _push_table(state: StateBlock, rows: Iterable[tuple[str, Iterable[Any]]]) -> None:
    """Append a table. A row is `("th" or "td", cells)`. A cell is `(rowspan - 1, colspan - 1, Markdown)`."""
    state.push("table_open", "table", 1)
    for tag, cells in rows:
        state.push("tr_open", "tr", 1)
        for more_rows, more_columns, text in cells:
            state.push(f"{tag}_open", tag, 1).attrs = {"rowspan": more_rows + 1, "colspan": more_columns + 1}
            _push_blocks(state, text)
            state.push(f"{tag}_close", tag, -1)
        state.push("tr_close", "tr", -1)
    state.push("table_close", "table", -1)


def _tokenize_lines(state: StateBlock, start: int, end: int, indent: int = 0) -> None:
    """Parse the lines from `start` to `end` as blocks, after removing `indent` spaces from each line."""
    line_max, state.lineMax = state.lineMax, end
    state.level += 1
    state.blkIndent += indent
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= indent
    state.level -= 1
    state.lineMax = line_max


def read_fence(
    state: StateBlock, start: int, end: int, silent: bool, rule: Callable[..., bool] = fence, info: str = ""
) -> bool:
    """Parse a fenced block: code with its language and title, or a directive with its text."""
    is_fence = rule(state, start, end, silent)
    if not is_fence or silent:
        return is_fence
    token, after = state.tokens.pop(), state.line
    info = info or token.info.strip()
    directive = _DIRECTIVE.match(info)
    language = re.split(r"[\s{:,\[]", info.lstrip("{. "))[0].rstrip("}")
    lines = token.content.split("\n")
    first = _count_option_lines(lines) if directive else 0
    if directive and directive[1].lower() not in CODE:
        name, argument = directive[1].lower(), directive[2]
        if name in HIDDEN:
            reader_notes.add(f"a directive was left out: {name}")
        elif name == "eval-rst":
            state.push("html_block", "", 0).content = to_html(token.content)
        else:
            _push_text(state, "" if _FILE.fullmatch(argument) else argument)
            _push_fields(state, argument, lines[:first])
            _tokenize_lines(state, start + 1 + first, start + len(lines) + bool(lines[-1]))
        state.line = after
        return True
    if directive:
        language = directive[2] if directive[2].isalnum() else ""
        _push_fields(state, "", lines[:first])
    content = "\n".join(lines[first:])
    if language == "=html":
        state.push("html_block", "", 0).content = content
    elif language not in _SHOWS_TEMPLATES and content.strip() and all(map(_INCLUDE.fullmatch, lines[first:])):
        reader_notes.add("a file that Markdown includes was left out")
    else:
        label = _BRACKETED.match(info)
        _push_text(state, shown_words(f" {info}") or (label[1] if label else ""), is_literal=True)
        code = "\n".join(dropwhile(_CELL_OPTION.match, lines[first:]))
        _push_code(state, _HIGHLIGHTER_NOTE.sub("", code), language)
    return True


def _count_option_lines(lines: Sequence[str]) -> int:
    first = 0
    if lines[0].strip() == "---":
        first = next((place for place, line in enumerate(lines[1:50], 2) if line.strip() == "---"), 0)
    while first < len(lines) and OPTION.match(lines[first].lstrip()):
        first += 1
    return first


def read_colons(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a line that opens or closes a container, such as `::: note "Title"`. Show its title and visible options."""
    line = _line_at(state, start, ":")
    signs = _COLONS.match(line)
    if signs is None or silent:
        return signs is not None
    rest = line[signs.end() :].strip().rstrip(":").rstrip()
    directive = _DIRECTIVE.match(rest)
    kind = directive[1].lower() if directive else rest
    is_code = kind in CODE | HIDDEN | {"eval-rst"}
    if is_code and read_fence(state, start, end, silent, _colon_fence, rest):
        return True
    state.line = start + 1
    while directive and state.line < end and OPTION.match(_line_at(state, state.line)):
        state.line += 1
    name_match = _COLON_NAME.match(rest)
    title = rest[name_match.end() if name_match else 0 :].partition("{")[0].strip()
    if title.startswith("["):
        title = title[1:].rpartition("]")[0]
    _push_text(state, shown_words(rest) if '="' in rest else title)
    _push_fields(state, title, [_line_at(state, line) for line in range(start + 1, state.line)])
    return True


def read_box(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a box or tab of MkDocs: a line such as `!!! note "Title"`, and the indented lines below it."""
    box = _BOX.fullmatch(_line_at(state, start, "!?="))
    if box is None or silent:
        return box is not None
    kind, title = box["kind"] or "", box["title"]
    _push_text(state, "".join(kind.split()[:1]).capitalize() if title is None else title)
    state.line = start + 1
    inner = state.skipEmptyLines(state.line)
    if inner < end and state.sCount[inner] - state.blkIndent >= 4:
        _tokenize_lines(state, inner, end, indent=4)
    return True


def read_mark_line(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an abbreviation or a property, or skip a line of markup without text, such as `(target)=`."""
    match = None if state.is_code_block(start) else _MARK_LINE.fullmatch(_line_at(state, start))
    if match is None or silent:
        return match is not None and match["comment"] is None  # a percent sign in a paragraph is no comment
    name, value = match["abbreviation"] or match["property"], match["value"] or ""
    if match["include"]:
        reader_notes.add("a file that Markdown includes was left out")
    elif name and (match["abbreviation"] or not ("." in name or _MACHINE_VALUE.fullmatch(value))):
        _push_text(state, f"{name}: {value}")
    state.line = start + 1
    return True


def read_module(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Skip a JavaScript import or export, which ends at an empty line outside brackets."""
    if state.level or state.sCount[start] or not ESM.match(state.src, state.bMarks[start], state.eMarks[start]):
        return False
    depth, line = 0, start
    end = min(end, start + (1 if state.env.get("unclosed_module") else _MAX_MODULE_LINES))
    while line < end and (depth > 0 or not state.isEmpty(line)):
        text = _line_at(state, line)
        if line > start and depth <= 0 and not ESM.match(text) and not text.startswith((".", "}", ")", "]")):
            break
        depth += sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
        line += 1
    state.env["unclosed_module"] = depth > 0
    state.line = start + 1 if depth > 0 else line  # skip only one line unless all brackets are closed
    return True


def read_highlight(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a block of code between template tags, such as `{% highlight %}`."""
    opening = _HIGHLIGHT.match(_line_at(state, start, "{"))
    if opening is None:
        return False
    line = _closing_line(state, start, end, re.compile(_HIGHLIGHT_END % opening[1]), "unclosed")
    if not line:
        return False
    _push_code(state, state.getLines(start + 1, line, state.sCount[start], True), opening[2] or "")
    state.line = line + 1
    return True


def _closing_line(state: StateBlock, start: int, end: int, closing: re.Pattern[str], key: str) -> int:
    """Return the first line below `start` that matches, or 0. A failed search is not repeated for the same `key`."""
    for line in range(start + 1, 0 if state.env.get(key) else end):
        if closing.match(state.src, state.bMarks[line], state.eMarks[line]):
            return line
    state.env[key] = True
    return 0


def _go_past(state: StateBlock, start: int, place: int, end: int) -> None:
    state.line = start + 1
    while state.line < end and state.eMarks[state.line - 1] < place:
        state.line += 1


def read_tags(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse lines that consist only of tags of templates or components. A tag may span empty lines."""
    place, limit = state.bMarks[start] + state.tShift[start], state.eMarks[end - 1]
    texts: list[str] = []
    if not _line_at(state, start, "{<%"):
        return False
    while place < limit and state.src[place] != "\n":
        tag = tag_at(state.src, place, limit, state.env)
        if tag is None:
            return False
        texts.append(tag[1])
        place = state.skipSpaces(tag[0])
    _go_past(state, start, place, end)
    for text in texts:
        _push_text(state, text, is_literal=True)
    return True


def read_html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse an HTML block. If the content of its element is Markdown, parse only the opening or closing tag."""
    line = "" if silent else _line_at(state, start, "<")
    if state.env.get(IS_MDX) and line[1:].lstrip("/")[:1].isupper():  # a component, not an HTML element
        return False
    tag = ELEMENT.match(line + "\n")
    has_markdown = state.env.get(IS_MDX) or _PARSES_WITHIN.search(line.partition(">")[0] + ">")
    if not tag or tag[1] in ("script", "style", "pre", "textarea") or not has_markdown:
        return html_block(state, start, end, silent)
    place = state.bMarks[start] + state.tShift[start]
    element = element_at(state.src, place, state.eMarks[end - 1], state.env)
    _go_past(state, start, element[0] if element else place, end)
    _push_text(state, state.getLines(start, state.line, state.blkIndent, False).strip(), is_hidden=True)
    return True


def read_json_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the title, text, code, captions and table of a block of JSON in the dialect of ReadMe."""
    if not _JSON_BLOCK.fullmatch(_line_at(state, start, "[")):
        return False
    line = _closing_line(state, start, end, re.compile(r"[ \t]*\[/block\][ \t]*$"), "unclosed_json")
    try:
        fields = json.loads(state.getLines(start + 1, line, 0, True), strict=False) if line and not silent else None
    except (ValueError, RecursionError):
        return False
    if not isinstance(fields, dict):
        return silent and line > 0
    state.line = line + 1
    if isinstance(level := fields.get("level"), int):
        fields["title"] = f"{'#' * min(level, 6)} {fields.get('title')}"
    lists = {name: value if isinstance(value, list) else [] for name, value in fields.items()}
    images, codes = ([item for item in lists.get(name, ()) if isinstance(item, dict)] for name in ("images", "codes"))
    for text in (*map(fields.get, ("title", "body", "caption", "text")), *(image.get("caption") for image in images)):
        _push_blocks(state, text if isinstance(text, str) else "")
    state.push("html_block", "", 0).content = str(fields.get("html") or "")
    for code in codes:
        _push_text(state, str(code.get("name") or ""), is_literal=True)
        _push_code(state, str(code.get("code")), str(code.get("language") or "").partition("|")[0])
    data: Any = fields.get("data")
    places = filter(None, map(_JSON_CELL.fullmatch, data if isinstance(data, dict) else ()))
    cells = sorted((int(place[1].replace("h", "-1")), int(place[2]), place[0]) for place in places)
    rows = ((row, [(0, 0, str(data[key])) for _, _, key in group]) for row, group in groupby(cells, itemgetter(0)))
    _push_table(state, (("td" if row >= 0 else "th", texts) for row, texts in rows))
    return True


def read_grid(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a grid table of Pandoc, whose cells contain Markdown."""
    if silent or not _GRID_RULE.fullmatch(_line_at(state, start, "+")):
        return False
    line = start
    lines: list[str] = []
    while line < end and (text := _line_at(state, line))[:1] in ("+", "|"):
        is_rule = _GRID_RULE.fullmatch(text)
        lines.append(re.sub("(?<=[+]):|:(?=[+])", "=" if "=" in text else "-", text) if is_rule else text)
        line += 1
    width = max(map(len, lines))
    if width * len(lines) > _MAX_GRID_CHARACTERS:
        return False
    heads = [place for place, text in enumerate(lines) if text.startswith("+=")]
    for place in heads if heads[:1] == [0] else heads[1:]:
        lines[place] = lines[place].replace("=", "-")
    try:
        _, head, body = GridTableParser().parse(StringList([text.ljust(width) for text in lines]))
    except (TableMarkupError, AssertionError):
        return False
    state.line = line
    rows: list[tuple[str, list[Any]]] = [*(("th", row) for row in head), *(("td", row) for row in body)]
    _push_table(state, ((tag, [(*cell[:2], "\n".join(cell[3])) for cell in filter(None, row)]) for tag, row in rows))
    return True

"""Convert AsciiDoc to HTML, after `includes` has preprocessed it. Raw HTML is left out.

Blocks are parsed line by line, inline markup by a regular expression. The text of unknown macros and blocks is kept.
"""

import csv
import re
from collections.abc import Sequence
from html import escape

from indexer.read.extraction import first_day, language_of
from indexer.read.markup.includes import ENTRY, INTRINSIC, MAX_VALUE_LENGTH, lines_of, preprocess
from indexer.read.markup.markdown import Rendered
from indexer.records import Declared, Extraction
from indexer.text import reader_notes

_MAX_NESTING = 12
_MAX_EXPANDED_CHARACTERS = 1_000_000
_MAX_SPAN = 100
_MACRO = re.compile(r"([A-Za-z][\w-]*)::([^\s\[]*)\[(.*)\]$")
_HEADING = re.compile(r"(={1,6}|#{1,6})[ ]+(\S.{0,500}?)(?:(?<!\s)[ ]++\1)?(?:(?<!\s)[ ]*+\[\[([\w:.-]+)\]\])?$")
_TITLE_UNDERLINES = "=-~^+"
_UNDERLINE = re.compile(r"={2,}|-{2,}|~{2,}|\^{2,}|\+{2,}")
_DELIMITER = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|={4,}|\*{4,}|_{4,}|/{4,}|--|```|[|,!]={3,})$|```\w+$")
_META = re.compile(
    r"\[\[(?P<id>[^\[\],\s]+)(?:,.*)?\]\]$|\[(?P<options>(?!\[).*)\]$|\.(?![. ])(?P<label>\S.*)$|//(?!//)"
)
_ID = re.compile(r"(?:^|,)[\w%.-]*#([\w:-]+)|\bid=[\"']?([\w:-]+)")
_ITEM = re.compile(r"[ ]*(\*{1,6}|-|•|\.{1,6}|\d+\.|[a-zA-Z]\.|<(?:\d+|\.)>)[ ]+(?:\[[ xX*]\][ ]+)?(\S.*)$")
_TERM = re.compile(r"[ ]*+(?!//)(\S.{0,500}?)(:{2,4}|;;)(?:[ ]++(.*+))?$")
_VERBATIM = frozenset("source listing literal verse stem latexmath asciimath".split())
_ADMONITIONS = frozenset("NOTE TIP IMPORTANT WARNING CAUTION".split())
_CELL = r"(?<!\S)(?:(\d*)(?:\.(\d+))?([+*]))?[<^>]?(?:\.[<^>])?([adehlmsv]?)\%s|(?<!\\)\%s"
_CELLS = {sign: re.compile(_CELL % (sign, sign)) for sign in "|!"}
_COLUMN = re.compile(r"(?:^|[,;])[ ]*(?:(\d+)\*)?[^,;a-z]*([a-z]?)")
_COLUMNS = re.compile(r"\bcols=(?:\"([^\"]*)\"|([^,]*))")
_INLINE = re.compile(  # the text is already escaped as HTML
    r"""\\(?P<escaped>\{|[*_`\#+~^]{1,2}|&lt;&lt;|\[\[)
    |\+\+\+(?P<raw>.{1,1000}?)\+\+\+|pass:[a-z,]*\[(?P<passed>[^\]]{0,1000})\]
    |\$\$(?P<dollars>.{1,1000}?)\$\$|\+\+(?P<pluses>.{1,1000}?)\+\+|(?<![\w`])`\+(?P<literal>.{1,300}?)\+`(?!\w)
    |\{(?P<attribute>\w[\w-]*)\}|\{(?:counter2?|set):[^{}\n]*\}
    |\[\[\[(?P<entry>[\w:.-]+)[^\[\]\n]{0,100}\]\]\]|\[\[(?P<anchor>[\w:.-]+)(?:,[^\[\]\n]{0,300})?\]\]
    |&lt;&lt;\#?(?P<target>[^,&\n]{1,200})(?:,(?P<label>.{1,300}?))?&gt;&gt;
    |(?<![\w:/])(?P<macro>[A-Za-z][\w+-]{0,40}):(?P<of>[^\s\[\]:][^\s\[\]]{0,300})?
      \[(?=[^\]]{0,500}\])(?P<words>(?:[^\]\\]|\\.){0,500}+)\]
    |\(\(\([^()\n]{1,300}\)\)\)|\(\((?P<term>[^()\n]{1,300})\)\)
    |(?:\[[^\[\]\n]{0,100}\])?(?:(?P<free>\*\*|__|``|\#\#)(?P<free_text>.{1,300}?)(?P=free)
      |(?<![\w&;:}])(?P<mark>[*_`\#+'])(?=[^\s*_`\#+'])(?P<marked>.{1,200}?)(?P=mark)(?<!\s.)(?!\w))
    |(?P<tilted>[~^])(?P<tilted_text>[^\s~^]{1,100})(?P=tilted)
    |[ ](?P<line_end>\+)$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TAG = re.compile(r"&lt;/?\w(?:[^&]|&amp;)*+&gt;")
_REFERENCE = re.compile("\0([^\0]*)\0")
_OPTION = re.compile(r",?[ ]{0,9}\b[\w-]{1,40}=(?:\"[^\"]*\"|[^,]*)")


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the sections and metadata of an AsciiDoc text."""
    lines, reader = list(preprocess(lines_of(body, charset))), _Reader()
    first = next((place for place, line in enumerate(lines) if line and line[0] != ":" and line[:2] != "//"), 0)
    head: list[str] = []
    if (title := reader.heading(lines, first)) and title[0] == 1:
        reader.is_old = not lines[title[2] - 1].startswith("= ")
        end = lines.index("", title[2]) if "" in lines[title[2] :] else len(lines)
        head = [line for line in lines[title[2] : end] if line[0] != ":"]
        lines[title[2] : end] = [line for line in lines[title[2] : end] if line[0] == ":"]
    html = reader.blocks(lines)
    html = _REFERENCE.sub(lambda id_: reader.titles.get(id_[1], id_[1].lstrip("_").replace("_", " ")), html)
    dates = re.findall(r"\d{4}-\d\d-\d\d", " ".join((reader.attributes.get("revdate", ""), *head)))
    declared = Declared(language=language_of(reader.attributes.get("lang")), date=first_day(dates))
    return Rendered(html, None, declared).extraction()


class _Reader:
    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self.is_old = False
        self._characters_left = _MAX_EXPANDED_CHARACTERS

    def blocks(self, lines: list[str], depth: int = 0) -> str:
        html, place = [], 0
        while place < len(lines):
            block, place = self._block(lines, place, depth)
            html.append(block)
        return "\n".join(html)

    def heading(self, lines: list[str], place: int) -> tuple[int, str, int, str] | None:
        """Return the title at `place` as (level, text, index of the line below, id or ""), or None if there is none."""
        line, below = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
        if match := _HEADING.match(line):
            return len(match[1]), match[2], place + 1, match[3] or ""
        if _UNDERLINE.fullmatch(below) and abs(len(line) - len(below)) < 2 and re.match(r"[\[{`'\"<(]*\w", line):
            return _TITLE_UNDERLINES.index(below[0]) + 1, line, place + 2, ""
        return None

    def _block(self, lines: list[str], place: int, depth: int, *, is_in_list: bool = False) -> tuple[str, int]:
        """Return the HTML of the block at `place`, and the index of the line below this block."""
        options = label = anchor = line = ""
        while place < len(lines):
            line = lines[place]
            if entry := ENTRY.match(line):
                place = self._define(entry, lines, place)
            elif line:
                attributes = _META.match(line)
                if attributes is None or _DELIMITER.match(line):
                    break
                options, label = attributes["options"] or options, attributes["label"] or label
                anchor = attributes["id"] or next((one or other for one, other in _ID.findall(options)), anchor)
            place += 1
        else:
            return "", place
        style = re.split(r"[,#.%]", options)[0].strip()
        if heading := self.heading(lines, place):
            return self._section(*heading[:2], heading[3] or anchor), heading[2]
        if _DELIMITER.match(line):
            html, place = self._delimited(lines, place, style, options, depth)
        elif attributes := _MACRO.match(line):
            html, place = self._block_macro(attributes), place + 1
        elif line in ("'''", "***", "---", "<<<", "+"):
            html, place = "", place + 1
        elif _ITEM.match(line) or _TERM.match(line):
            html, place = self._list(lines, place, depth)
        else:
            end = place + 1
            while end < len(lines) and lines[end] and not self._ends_text(lines, end, is_in_list=is_in_list):
                end += 1
            html, place = self._paragraph(lines[place:end], style, options), end
        head = (f'<a id="{escape(anchor)}"></a>' if anchor else "") + (f"<p>{self._inline(label)}</p>" if label else "")
        return head + html, place

    def _define(self, entry: re.Match[str], lines: list[str], place: int) -> int:
        """Set the attribute that line `place` defines. Return the index of the definition's last line."""
        name, value = entry[2], entry[4] or ""
        while value.endswith(" \\") and place + 1 < len(lines):
            place += 1
            value = f"{value[:-2]} {lines[place].strip()}"
        if name == "leveloffset" and re.fullmatch(r"[+-]\d", value):
            value = str(self._level_offset() + int(value))
        self.attributes[name] = self._replaced(value)[:MAX_VALUE_LENGTH]
        if entry[1] or entry[3]:
            del self.attributes[name]
        return place

    def _replaced(self, text: str) -> str:
        """Replace references such as `{name}` by the values of attributes, until too many characters are inserted."""

        def value_of(match: re.Match[str]) -> str:
            value = self.attributes.get(match[1].lower(), match[0])
            self._characters_left -= len(value)
            return value if self._characters_left > 0 else match[0]

        return re.sub(r"(?<!\\)\{(\w[\w-]*)\}", value_of, text)

    def _level_offset(self) -> int:
        """Return the offset of heading levels, or 0 if the attribute `leveloffset` is not a number."""
        value = self.attributes.get("leveloffset", "")
        return int(value) if re.fullmatch(r"-?\d{1,3}", value) else 0

    def _section(self, level: int, title: str, anchor: str) -> str:
        level = min(max(level + self._level_offset(), 1), 6)
        html = self._inline(title)
        slug = re.sub(r"[\s.-]+", "_", re.sub(r"<[^<>]*>|&\w+;|[^\w\s.-]", "", html.lower())).strip("_")
        anchor = anchor or f"_{slug}"
        self.titles.setdefault(anchor, html)
        return f'<h{level} id="{escape(anchor)}">{html}</h{level}>'

    def _block_macro(self, match: re.Match[str]) -> str:
        text = self._inline(_OPTION.sub("", match[3]).partition(",")[0].strip('"'))
        return "" if match[1] == "toc" else f'<img src="#" alt="{text}">' if match[1] == "image" else f"<p>{text}</p>"

    def _delimited(self, lines: list[str], place: int, style: str, options: str, depth: int) -> tuple[str, int]:
        sign, fence = lines[place][0], lines[place][:3] if lines[place][0] == "`" else lines[place]
        end = next((at for at in range(place + 1, len(lines)) if lines[at] == fence), len(lines))
        inner = lines[place + 1 : end]
        if sign == "/" or style == "comment":
            return "", end + 1
        if sign in "|,!":
            return self._table(inner, options, sign, depth), end + 1
        if sign == "+" and style not in _VERBATIM:
            reader_notes.add("raw markup in AsciiDoc was left out")
            return "", end + 1
        if (sign in "-.`+" and fence != "--") or style in _VERBATIM or depth >= _MAX_NESTING:
            return self._paragraph(inner, style if style in _VERBATIM else "literal", options), end + 1
        title = f"<p>{style.capitalize()}</p>" if style in _ADMONITIONS else ""
        return f"{title}{self.blocks(inner, depth + 1)}{self._source(style, options)}", end + 1

    def _paragraph(self, lines: Sequence[str], style: str, options: str) -> str:
        text = "\n".join(lines)
        if style == "verse":
            return f"<pre>{self._inline(text)}</pre>{self._source(style, options)}"
        if style in _VERBATIM or (text[:1] == " " and not style):
            text = self._replaced(text) if "attributes" in options else text
            return f"<pre>{escape(text, quote=False)}</pre>"
        title = f"{style.capitalize()}: " if style in _ADMONITIONS else ""
        text = "\n".join(line for line in lines if line[:2] != "//" or line[:3] == "///")
        return f"<p>{title}{self._inline(text)}</p>{self._source(style, options)}" if style != "comment" else ""

    def _source(self, style: str, options: str) -> str:
        words = [word.strip(' "') for word in options.split(",")[1:3]] if style in ("quote", "verse") else []
        return f"<p>{self._inline(', '.join(filter(None, words)))}</p>"

    def _list(self, lines: list[str], place: int, depth: int) -> tuple[str, int]:
        """Return the HTML of the list at `place` with its nested content, and the index of the line below the list."""
        html, stack = [], list[tuple[str, str]]()  # one per open list: (marker of its items, closing tag)
        while place < len(lines) and (item := _ITEM.match(lines[place]) or _TERM.match(lines[place])):
            is_term = item.re is _TERM
            sign = item[2] if is_term else re.sub(r"\d+|[a-zA-Z]", "1", item[1])
            if all(sign != other for other, _ in stack) and len(stack) < _MAX_NESTING:
                stack.append((sign, "</dl>" if is_term else "</ul>"))
                html.append("<dl>" if is_term else "<ul>")
            while stack[-1][0] != sign and len(stack) > 1:
                html.append(stack.pop()[1])
            text, place = [(item[3] or "") if is_term else item[2]], place + 1
            while place < len(lines) and (lines[place] or text == [""]) and not self._ends_text(lines, place):
                text.append(lines[place].strip())
                place += 1
            words = f"<p>{self._inline(chr(10).join(text).strip())}</p>"
            html.append(f"<dt>{self._inline(item[1])}</dt><dd>{words}" if is_term else f"<li>{words}")
            while (ahead := next((at for at in range(place, len(lines)) if lines[at]), None)) is not None:
                is_attached = lines[ahead] == "+"
                if not is_attached and (lines[ahead][0] != " " or self._ends_text(lines, ahead)):
                    place = ahead if self._is_item(lines, ahead) else place
                    break
                inner = min(depth + 1, _MAX_NESTING)
                block, place = self._block(lines, ahead + is_attached, inner, is_in_list=True)
                html.append(block)
        return "".join((*html, *(end for _, end in reversed(stack)))), place

    def _is_item(self, lines: list[str], place: int) -> bool:
        return bool(_ITEM.match(lines[place]) or _TERM.match(lines[place])) and not self.heading(lines, place)

    def _ends_text(self, lines: list[str], place: int, *, is_in_list: bool = True) -> bool:
        """Return whether a line ends the paragraph above. If `is_in_list`, the marker of a list item also ends it."""
        line, match = lines[place], _META.match(lines[place])
        is_block = line == "+" or bool(_DELIMITER.match(line)) or (match is not None and not match["label"])
        return (is_block and line[:2] != "//") or (is_in_list and self._is_item(lines, place))

    def _table(self, lines: list[str], options: str, sign: str, depth: int) -> str:
        if sign == "," or "csv" in options:
            rows_of_cells = csv.reader(filter(None, lines), skipinitialspace=True)
            lines = ["".join("|" + cell.replace("|", "\\|") + " " for cell in row) for row in rows_of_cells]
        text, pattern = "\n".join(lines).strip("\n"), _CELLS["!" if sign == "!" else "|"]
        marks, line_end = list(pattern.finditer(text)), text.find("\n") % (len(text) + 1)
        cells: list[tuple[int, int, str, str]] = []  # (column span, row span, style, text)
        first = 0
        for mark, end in zip(marks, [*(mark.start() for mark in marks[1:]), len(text)], strict=False):
            count, rows = (min(int((span or "1")[:3]), _MAX_SPAN) for span in mark.group(1, 2))
            repeat, width = (count, 1) if mark[3] == "*" else (1, count)
            cells += [(width, rows, mark[4] or "", re.sub(r"\\(?=[|!])", "", text[mark.end() : end]).strip())] * repeat
            first += width * repeat if mark.start() < line_end else 0
        spec = _COLUMNS.search(options)
        counts = _COLUMN.findall(spec[1] or spec[2] or "") if spec else []
        styles = [style for count, style in counts for _ in range(min(int(count[:3] or 1), _MAX_SPAN))] or [""] * first
        is_head = "header" in options or (len(styles) == first and len(lines) > 1 and lines[0] != "" == lines[1])
        html, used = ["<table><tr>"], 0
        below = [0] * (_MAX_SPAN + 1)  # numbers of columns that merged cells fill, one for each of the next rows
        for width, rows, style, words in cells:
            if used >= len(styles):
                html.append("</tr><tr>")
                used, below, is_head = below[0], [*below[1:], 0], False
            style = style or ("" if is_head else styles[min(used, len(styles) - 1)])
            inner = "<br>".join(map(self._inline, re.split(r"\n\s*\n", words)))
            if style == "a" and depth < _MAX_NESTING:
                inner = self.blocks(words.split("\n"), depth + 1)
            tag = "th" if (is_head and "noheader" not in options) or style == "h" else "td"
            html.append(f'<{tag} colspan="{width}" rowspan="{rows}">{inner}')
            used += width
            below[: rows - 1] = [filled + width for filled in below[: rows - 1]]
        return "".join((*html, "</table>"))

    def _inline(self, text: str) -> str:
        return self._unmarked(escape(self._replaced(text), quote=False), 0)

    def _unmarked(self, text: str, depth: int) -> str:
        return _INLINE.sub(lambda match: self._shown(match, depth + 1), text) if depth < _MAX_NESTING else text

    def _shown(self, match: re.Match[str], depth: int) -> str:
        kind = match.lastgroup or ""
        text = match[kind] if kind else ""
        if kind == "attribute":
            return escape(INTRINSIC.get(text, match[0]), quote=False)
        if kind in ("escaped", "literal", "entry", "dollars", "pluses") or match["mark"] == "+":
            return text
        if kind in ("raw", "passed"):
            return _TAG.sub("", text)
        if kind in ("anchor", "line_end"):
            return f'<a id="{text}"></a>' if kind == "anchor" else "<br>"
        if kind == "target":
            return f"\0{text}\0"
        if kind == "words":
            return self._macro(match["macro"], match["of"] or "", text, depth)
        unmarked = self._unmarked(text, depth)
        return f"'{unmarked}'" if match["mark"] == "'" and not self.is_old else unmarked

    def _macro(self, name: str, target: str, words: str, depth: int) -> str:
        if name in ("stem", "latexmath", "asciimath", "kbd", "btn"):
            return words
        label = (_OPTION.sub("", words) if "=" in words else words).replace("\\]", "]").strip(' "^')
        label = self._unmarked(label.partition(",")[0] if name == "image" else label, depth)
        if name in ("icon", "indexterm", "anchor", "image"):
            return label if name == "image" else ""
        if name == "menu" or name.startswith("footnote"):
            return f"{target} > {label}" if name == "menu" else f" ({label})" if label else ""
        if label.isdecimal() and target:
            return f"{target}({label})"
        if name == "xref" and not label:
            return f"\0{target.lstrip('#')}\0"
        return label or (f"{name}:{target}" if target.startswith("//") else target)

"""Source code to content: a section for each function, class or table, at the line where it begins.

What names a definition is much alike in the languages of today, so one expression finds them in all; nesting is read
off the indentation. A definition takes the comments and decorators right above it along.
"""

import re
from collections.abc import Iterator

from indexer.decoding import decode
from indexer.read.extraction import Extraction
from indexer.records import Section

_DEFINES = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([\w ]+\))?|unsafe|"
    r"open|sealed|data|partial|declare|local|virtual|override|const)\s+)*"
    r"(?:(?:def|class|func|fn|fun|function|interface|struct|enum|impl|trait|module|namespace|protocol|object|sub|"
    r"record|type)(?:\s+|(?=<))(?:\([^)\n]{0,100}\)\s*)?(?:<[^>\n]{0,100}>\s*)?(?P<name>[A-Za-z_$][\w$.:]*)"
    r"|(?i:create)\s+(?i:or\s+replace\s+)?(?:\w+\s+){0,3}?(?i:table|view|function|procedure|trigger|index|type)\s+"
    r"(?i:if\s+not\s+exists\s+)?(?P<sql>[\w.\"]+)"
    r"|(?P<shell>[A-Za-z_][\w-]*)\s*\(\)\s*\{)"
)
_C_FUNCTION = re.compile(
    r"(?![ \t]|return|else|typedef)(?:[A-Za-z_][\w:<>,]*[ \t*&]+){1,6}(?P<name>[A-Za-z_~][\w:~]*)\("
)
_ABOVE = re.compile(r"[ \t]*(?:#(?!include|define|if|endif)|//|/\*|\*|--|@|\"\"\")")
_LONGEST_LINE = 500  # characters; a longer one is data, or was made by a program
_TAB = 4  # columns


def read(body: bytes, charset: str | None) -> Extraction:
    """Cut a source file at its definitions."""
    lines = decode(body, charset, markup=False).replace("\r\n", "\n").split("\n")
    lines = [line[:_LONGEST_LINE] for line in lines]
    starts = list(_starts(lines))
    sections = [_section((), 0, starts[0][0] if starts else len(lines), lines)]
    for (start, path), (end, _) in zip(starts, [*starts[1:], (len(lines), ())], strict=False):
        sections.append(_section(path, start, end, lines))
    return Extraction(None, tuple(section for section in sections if section.text.strip()))


def _starts(lines: list[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    outline: list[tuple[int, str]] = []
    end_of_last = 0
    for number, line in enumerate(lines):
        found = _DEFINES.match(line)
        if found is None:
            found = _C_FUNCTION.match(line)
            if found is None or line.rstrip().endswith(";"):
                continue
            indent, name = 0, found["name"]
        else:
            indent = len(found["indent"].expandtabs(_TAB))
            name = found["name"] or found["sql"] or found["shell"]
        while outline and outline[-1][0] >= indent:
            outline.pop()
        outline.append((indent, name.strip('":.')))
        start = number
        while start > end_of_last and _ABOVE.match(lines[start - 1]):
            start -= 1
        end_of_last = number + 1
        yield start, tuple(text for _, text in outline)


def _section(path: tuple[str, ...], start: int, end: int, lines: list[str]) -> Section:
    return Section(path, f"L{start + 1}" if path else None, "\n".join(lines[start:end]))

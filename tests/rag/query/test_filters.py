"""A filter through the whole query path: the same documents in every mode."""

import random
from pathlib import Path
from typing import Any

import pytest

from indexer.config import BuildConfig
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder

WORDS = "cats dogs birds fish purr bark sing swim night day".split()
PAGES = 60


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("filters")
    chance = random.Random(3)
    for number in range(PAGES):
        page = folder / "docs" / ("a", "a/b c", "d")[number % 3] / f"{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        language, year, team = ("en", "de")[number % 2], 2020 + number % 5, "xyz=:"[number % 5]
        front = f"lang: {language}\ndate: {year}-06-30\nteam: [core, 'k=v:{team}']"
        page.write_text(f"---\n{front}\n---\n# Page {number}\n\ncats {' '.join(chance.choices(WORDS, k=60))}")
    with open("/dev/null", "w") as nowhere:
        progress = Progress(nowhere, "quiet")
        build([str(folder / "docs")], folder / "index", DummyEmbedder(), BuildConfig(), progress=progress)
    return Retriever(Generation.open(folder / "index"), DummyEmbedder())


def found(retriever: Retriever, fields: dict[str, Any], mode: str) -> set[int]:
    answer = retriever.answer_query(
        SearchRequest("cats", k=100, mode=mode, filter=Filter.parse(fields), per_document=0)
    )
    return {int(Path(hit.url.partition("#")[0]).stem) for hit in answer.hits}


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_every_mode_finds_the_same(retriever: Retriever, mode: str) -> None:
    docs = Path(retriever.generation.manifest.sources[0])
    expected = [
        ({"source": str(docs)}, lambda n: True),
        ({"source": str(docs.parent)}, lambda n: False),
        ({"path": str(docs / "a")}, lambda n: n % 3 < 2),
        ({"path": str(docs / "a" / "b c")}, lambda n: n % 3 == 1),
        ({"url_prefix": (docs / "a" / "b c").as_uri()}, lambda n: n % 3 == 1),
        ({"url_prefix": (docs / "d" / "5.md").as_uri()}, lambda n: n == 5),
        ({"language": "de-AT"}, lambda n: n % 2 == 1),
        ({"content_type": "text/html"}, lambda n: False),
        ({"date": {"from": "2021-06-30", "to": "2022-06-30"}}, lambda n: n % 5 in (1, 2)),
        ({"metadata": {"team": ["k=v:=", "k=v::"]}}, lambda n: n % 5 in (3, 4)),
        ({"metadata": {"team": "core"}, "language": "en", "date": {"to": "2020-12-31"}}, lambda n: n % 10 == 0),
    ]
    for fields, test in expected:
        assert found(retriever, fields, mode) == {number for number in range(PAGES) if test(number)}, fields

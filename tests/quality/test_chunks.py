"""The passages of the chunker against those of a plain splitter, by questions over the PostgreSQL manual."""

import re
import sys
from pathlib import Path

import pytest

from embedder import EmbedderConfig, Embeddings
from indexer.pipeline.progress import Progress
from tests.quality import chunks

needs_manual = pytest.mark.skipif(not chunks.MANUAL.is_dir(), reason=f"the manual is not at {chunks.MANUAL}")


def test_there_are_enough_questions_and_no_two_are_the_same() -> None:
    questions = chunks.read_questions()
    assert len({question for question, _ in questions}) == len(questions) >= 60
    assert len({url for _, url in questions}) == len(questions)


@needs_manual
def test_every_question_has_its_section() -> None:
    for question, url in chunks.read_questions():
        assert chunks.sections_about(chunks.MANUAL, url), question


@needs_manual
def test_no_question_copies_its_heading() -> None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"[a-z]{4,}", text.lower()))

    for question, url in chunks.read_questions():
        heading = chunks.section_path(chunks.MANUAL, url)[-1]
        named = words(heading)
        assert len(named) < 2 or not named <= words(question), (question, heading)


@needs_manual
@pytest.mark.model
def test_headings_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the pages that every second question is about: a twentieth of the time; docs have the whole manual."""
    questions = chunks.read_questions()[::2]
    monkeypatch.setattr(chunks, "read_questions", lambda: questions)
    names = sorted({url.partition("#")[0] for _, url in questions})
    embedder = Embeddings(EmbedderConfig(precision="int8"))
    sources = [chunks.MANUAL / name for name in names]
    quiet = Progress(sys.stderr, "quiet")
    found = {}
    for place, name in enumerate(chunks.CHUNKERS):
        index = tmp_path / str(place)
        chunks.make(name, sources, index, embedder, quiet)
        for mode in chunks.MODES:
            found[name, mode] = sum(chunks.hits(index, chunks.MANUAL, embedder, mode)[0])
    # Three quarters to nine tenths of 33 questions are found by either: one mode may be level on some processors, whose
    # bytes round otherwise; none may be behind, and all together must lead.
    plain, ours = ({mode: found[name, mode] for mode in chunks.MODES} for name in chunks.CHUNKERS)
    assert all(ours[mode] >= plain[mode] for mode in chunks.MODES), found
    assert sum(ours.values()) > sum(plain.values()), found

"""Changes of documents that a caller may no longer see, and comparisons that would take long."""

from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.filter import Filter
from rag import deadline
from rag.changes import compare, snapshots
from rag.changes.compare import DocumentText
from rag.changes.snapshots import find_changes
from rag.errors import DeadlinePassed, FieldError
from rag.messages import Changes
from rag.serving.live import LiveRetriever
from tests.building import build_index
from tests.rag.changes.test_changes import PAGES, page
from tests.rag.conftest import Site, live, site
from tests.waiting import wait_for

__all__ = ["live", "site"]
LIST = 'groups = ["payroll"]'
READER = Filter(readers=frozenset())


def changes_for_reader(site: Site, since: str | None = None, until: str | None = None) -> Changes:
    return find_changes(site.index, "default", since, until, lambda _: READER)


def close(source: Path) -> None:
    (source / "salaries.md.access.toml").write_text(LIST)


def move(source: Path) -> None:
    (source / "closed").mkdir()
    (source / "closed" / ".access.toml").write_text(LIST)
    (source / "salaries.md").rename(source / "closed" / "pay.md")


@pytest.mark.parametrize("restrict", [close, move])
@pytest.mark.parametrize("later_builds", [0, 1])
def test_a_document_that_was_restricted_since_is_not_shown(
    site: Site, restrict: Callable[[Path], None], later_builds: int
) -> None:
    (site.source / "salaries.md").write_text("# Salaries\n\nThe salary of the director is a secret.")
    (site.source / "gone.md").write_text("# Gone\n\nThis page will be removed for everyone.")
    first = site.build()
    restrict(site.source)
    (site.source / "gone.md").unlink()
    second = site.build()
    for _ in range(later_builds):
        (site.source / "new.md").write_text("# New\n\nA page is new.")
        build_index(site.index, site.source, keep_generations=3)
    shown = changes_for_reader(site, first, second)
    assert [(each.title, each.kind) for each in shown.documents] == [("Gone", "removed")]
    everything = find_changes(site.index, "default", first, second).documents
    assert len(everything) == (1 if restrict is close else 2), "the operator sees it, if it moved"


def test_versions_of_hidden_documents_are_unknown(site: Site) -> None:
    for version in ("15", "16", "17"):
        folder = site.source / "docs" / version
        folder.mkdir(parents=True)
        for number in range(PAGES):
            (folder / f"p{number}.md").write_text(page(number).replace("# Page", f"# Manual {version}: Page"))
    (site.source / "docs" / "17" / ".access.toml").write_text(LIST)
    site.build()
    assert changes_for_reader(site, "15").until.version == "16"
    with pytest.raises(FieldError) as known:
        changes_for_reader(site, "15", "17")
    assert str(known.value).endswith("there are: 15, 16.")
    with pytest.raises(FieldError) as hidden:
        changes_for_reader(site, "17")
    with pytest.raises(FieldError) as unknown:
        changes_for_reader(site, "18")
    assert str(hidden.value) == str(unknown.value)


def test_a_comparison_has_a_deadline_and_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.build()
    (site.source / "new.md").write_text("# New\n\nA page is new.")
    site.build()
    deadline.begin(0)
    with pytest.raises(DeadlinePassed):
        find_changes(site.index, "default", None, None)
    deadline.lift()
    monkeypatch.setattr(snapshots, "MAX_CHARACTERS", 10)
    with pytest.raises(FieldError, match="too much text differs"):
        find_changes(site.index, "default", None, None)


def test_the_text_of_an_answer_is_limited(site: Site, live: LiveRetriever, monkeypatch: pytest.MonkeyPatch) -> None:
    site.build()
    for name in ("a", "b", "c"):
        (site.source / f"{name}.md").write_text(f"# New {name}\n\nThe page {name} is new and has {name * 20}.")
    site.build()
    live.start()
    wait_for(lambda: live.ready)
    every = [document.characters for document in live.changes(None).documents]
    monkeypatch.setattr("rag.serving.live.MAX_SHOWN_CHARACTERS", sum(every[:2]))
    assert [document.characters for document in live.changes(None).documents] == [*every[:2], 0]


@pytest.mark.parametrize(("lines", "words"), [(20, 5_000), (300, 20)])
def test_long_texts_without_a_common_sentence_are_not_compared_in_pairs(
    lines: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def document(word: str) -> DocumentText:
        text = "\n".join(f"{word}{number} {word} " * words for number in range(lines))
        return DocumentText("a", "a", "a", "", [("a", "a", text)])

    monkeypatch.setattr(compare, "_share", lambda *_: pytest.fail("compared"))
    changes, _ = compare.compare({"a": document("x")}, {"a": document("y")}, 1)
    assert [len(change.sections) for change in changes] == [1]

"""Questions whose first hits differ because of a change."""

from contextlib import closing

from msgspec.structs import replace

from indexer.generation.generation import Generation
from rag.changes.questions import find_changed_answers
from rag.changes.snapshots import find_changes
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site


def test_questions_that_a_change_answers_differently(site: Site) -> None:
    site.build()
    path = site.source / "vacuum.md"
    path.write_text(path.read_text(encoding="utf-8").replace("dead tuples", "old rows"), encoding="utf-8")
    site.build()
    changes = find_changes(site.index, "default", None, None)
    with (
        closing(Generation.open(site.index, changes.since.generation)) as old,
        closing(Generation.open(site.index, changes.until.generation)) as new,
    ):
        retrievers = [Retriever(each, DummyEmbedder()) for each in (old, new)]
        answers = find_changed_answers(["vacuum of dead tuples"], changes, *retrievers)
        nothing = find_changed_answers(["vacuum"], find_changes(site.index, "default", "live", None), *retrievers)
        [document] = changes.documents  # the answer is put down to a changed page, not to any page among the hits
        elsewhere = replace(document, url=(site.source / "partial.md").as_uri(), old_url=None)
        nothing += find_changed_answers(["vacuum"], replace(changes, documents=[elsewhere]), *retrievers)
    [answer] = answers
    assert path.as_uri() in answer.line()
    assert answer.change == "Vacuum rewritten"
    assert nothing == []

"""Find questions whose first hits differ between two generations because documents changed."""

from collections.abc import Iterable

import msgspec

from rag.messages import Changes
from rag.query.request import SearchRequest
from rag.query.results import Hit
from rag.query.retriever import Retriever

FIRST_HITS = 3


class ChangedAnswer(msgspec.Struct, frozen=True):
    """A question, the addresses of its first hits before and after, and the change that explains the difference."""

    question: str
    before: list[str]
    after: list[str]
    change: str

    def line(self) -> str:
        """Format the difference as one line for a terminal."""
        before, after = (each[0] if each else "nothing" for each in (self.before, self.after))
        return f"{self.question}: {before} → {after} ({self.change})"


def find_changed_answers(
    questions: Iterable[str], changes: Changes, old: Retriever, new: Retriever
) -> list[ChangedAnswer]:
    """Return the questions whose first hits differ because a document changed.

    Args:
        questions: the questions to search for.
        changes: the differences between the two generations.
        old: searches the earlier generation.
        new: searches the later generation.
    """
    reasons: dict[str, str] = {}
    for document in changes.documents:
        kinds = ", ".join(f"{each.section or document.title} {each.kind}" for each in document.sections)
        for url in filter(None, (document.url, document.old_url)):
            reasons[url] = kinds or document.kind
    answers = []
    for question in questions:
        request = SearchRequest(question, k=FIRST_HITS)
        before, after = (retriever.answer_query(request).hits for retriever in (old, new))
        texts_before, texts_after = {hit.text for hit in before}, {hit.text for hit in after}
        differing = [hit for hit in after if hit.text not in texts_before]
        differing += [hit for hit in before if hit.text not in texts_after]
        reason = next((reasons[_page(hit)] for hit in differing if _page(hit) in reasons), None)
        if reason is not None:
            answers.append(ChangedAnswer(question, [hit.url for hit in before], [hit.url for hit in after], reason))
    return answers


def _page(hit: Hit) -> str:
    return hit.url.partition("#")[0]

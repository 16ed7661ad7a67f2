"""Whether what was found answers a query, or is merely the nearest there is; see docs/evaluation.md for figures."""

from collections.abc import Sequence

from indexer.generation.lexical.analysis import rules_for, terms_in, terms_of_word
from indexer.generation.lexical.lexical_query import Terms
from rag.query.options import CLOSE
from rag.query.results import Hit

JUDGED = 10  # of the best passages
_WITH_WORDS = 0.8  # of that cosine, where the passage has most words of the query
_MOST = 0.6  # of the words
_SOME = 0.34  # of the words, where there is no cosine: the search was by words alone


def is_close(asked: Sequence[Terms], hits: Sequence[Hit], close: float = CLOSE) -> bool:
    """Whether one of the hits is close to a query, by its cosine and by how many of the query's words it has.

    `asked` are the words of the query, see `LexicalQuery.asked`.
    """
    if any((hit.scores["dense"] or -1.0) >= close for hit in hits):
        return True
    for hit in hits:
        cosine = hit.scores["dense"]
        may_be = cosine is None or cosine >= _WITH_WORDS * close
        if may_be and overlap(asked, hit) >= (_SOME if cosine is None else _MOST):
            return True
    return False


def overlap(asked: Sequence[Terms], hit: Hit) -> float:
    """Share of the words of a query that a hit has in its text, title or headings."""
    if not asked:
        return 0.0
    found = set(terms_in(f"{hit.title} {hit.section}", hit.language))
    rules = rules_for(hit.language)
    found.update(*(terms_of_word(hit.text[start:end], rules) for start, end in hit.highlights))
    return sum(not found.isdisjoint(forms) for forms in asked) / len(asked)

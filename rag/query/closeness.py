"""Whether what was found answers a query, or is merely the nearest there is; see docs/evaluation.md for figures."""

from collections.abc import Sequence

from indexer.generation.lexical.analysis import terms_in, terms_of_word
from indexer.generation.lexical.lexical_query import read_query
from rag.query.options import CLOSE
from rag.query.results import Hit

JUDGED = 10  # of the best passages
_WITH_WORDS = 0.8  # of that cosine, where the passage has most words of the query
_MOST = 0.6  # of the words
_SOME = 0.34  # of the words, where there is no cosine: the search was by words alone


def is_close(query: str, hits: Sequence[Hit], close: float = CLOSE) -> bool:
    """Whether one of the hits is close to a query, by its cosine and by how many of the query's words it has."""
    if any((hit.scores["dense"] or -1.0) >= close for hit in hits):
        return True
    for hit in hits:
        cosine = hit.scores["dense"]
        may_be = cosine is None or cosine >= _WITH_WORDS * close
        if may_be and overlap(query, hit) >= (_SOME if cosine is None else _MOST):
            return True
    return False


def overlap(query: str, hit: Hit) -> float:
    """Share of the words of a query, but for stop words, that a hit has in its text, title or headings."""
    wanted = read_query(query).marked
    if not wanted:
        return 0.0
    found = set(terms_in(f"{hit.title} {hit.section}"))
    found.update(*(terms_of_word(hit.text[start:end]) for start, end in hit.highlights))
    return len(wanted & found) / len(wanted)

"""Check any text against an index: search for passages with the words of each sentence."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from rag import deadline
from rag.answer.proof import Lookup, Prover
from rag.answer.sentences import SentenceSplitter
from rag.messages import Proof, Verification
from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit

MAX_SENTENCES = 1_000
MAX_PASSAGES = 6
_MAX_QUERY_WORDS = 60
_WORD = re.compile(r"\w+")

Search = Callable[[SearchRequest], Answer]


def make_lookup(search: Search, scope: SearchRequest) -> Lookup:
    """Return a function that finds passages by words; it raises the errors of `search`.

    Args:
        search: runs a search.
        scope: the collections and the filter to search with.
    """

    def look_up(text: str) -> Sequence[Hit]:
        query = " ".join(match[0].lower() for match in islice(_WORD.finditer(text), _MAX_QUERY_WORDS))
        options: dict[str, Any] = {"mode": "lexical", "expand": "section", "links": True, "offset": 0}
        options |= dict.fromkeys(("facets", "rerank", "explain"), False)
        request = replace(scope, query=query or "?", k=MAX_PASSAGES, per_document=MAX_PASSAGES, **options)
        return search(request).hits if query else ()

    return look_up


def verify(text: str, search: Search, scope: SearchRequest) -> Verification:
    """Check up to MAX_SENTENCES sentences of a text, each against the passages that share the most words with it.

    Args:
        text: the text; its citations are ignored.
        search: finds the passages.
        scope: the collections and the filter to search with.

    Raises:
        DeadlinePassed: the check takes too long.
    """
    look_up, proofs = make_lookup(search, scope), list[Proof]()
    for sentence in SentenceSplitter(MAX_SENTENCES).feed(text, is_last=True)[:MAX_SENTENCES]:
        deadline.check()
        bare = sentence._replace(citations=())
        prover = Prover(look_up(text[sentence.start : sentence.end]), lookup=look_up, are_numbered=False)
        proofs.append(prover.check(bare))
    counts = Counter(str(proof.verdict) for proof in proofs)
    return Verification(proofs, counts, proofs[-1].end if proofs else 0)

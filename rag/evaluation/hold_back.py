"""The judge of a new generation: it is held back if it answers judged queries worse than the live one."""

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.errors import IndexCorrupt
from indexer.generation.generation import Generation
from indexer.generation.manifest import Manifest
from indexer.number_format import counted
from indexer.publish.held_back import HeldBack
from rag.evaluation.comparison import compare
from rag.evaluation.dataset import Judgements
from rag.evaluation.index_search import by_document, deep_enough, missing, relevant, search_index
from rag.evaluation.measures import NDCG, Run
from rag.query.request import Limits
from rag.query.retriever import Retriever

EmbedderOf = Callable[[Manifest], Embedder]


class GenerationJudge:
    """Searches both generations as a server would, each by its own model."""

    def __init__(
        self,
        queries: Mapping[str, str],
        judgements: Judgements,
        most: float,
        limits: Limits,
        embedder_of: EmbedderOf,
        *,
        quiet: bool = False,
    ) -> None:
        """`most` is how much of nDCG@10 a new generation may lose; `embedder_of` gives the model that made one."""
        self._queries = queries
        self._judgements = by_document(judgements)
        self._most = most
        self._limits = deep_enough(limits)
        self._embedder_of = embedder_of
        self._quiet = quiet

    def __call__(self, live: Path, draft: Path) -> HeldBack | None:
        """Compare a new generation with the live one, given by their folders; return why it is held back, if it is.

        Nothing is held back for a live one that is damaged, or that has none of the documents that are judged relevant:
        the queries are then of another collection. Where the two cannot be compared, the new one is held back.
        """
        try:
            before = self._search(live)
            if before is None:
                return None
            after = self._search(draft) or {}
        except IndexCorrupt as error:
            self._say(f"the new generation was not judged: {error}")
            return None
        except PilotlightError as error:
            return HeldBack(draft.name, f"it cannot be compared with the live one: {error}")
        found = compare(self._queries, self._judgements, before, after)
        ndcg = found.measures[NDCG]
        if -ndcg.difference <= self._most:
            return None
        asked = counted(len(self._queries), "question")
        reason = (
            f"nDCG@10 of {asked} is {ndcg.b:.4f} instead of {ndcg.a:.4f} (p = {ndcg.p:.4f}); {self._most:g} may be lost"
        )
        figures = found.as_dict()
        return HeldBack(draft.name, reason, {name: figures[name] for name in ("queries", "measures")})

    def _search(self, folder: Path) -> Run | None:
        """Search a generation; None where it has no document that is judged relevant."""
        with closing(Generation(folder)) as generation:
            if len(missing(generation, self._judgements)) == len(relevant(self._judgements)):
                self._say(f"generation {folder.name} has no document that is judged relevant")
                return None
            retriever = Retriever(generation, self._embedder_of(generation.manifest), limits=self._limits)
            return search_index(retriever, self._queries, self._judgements)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr)

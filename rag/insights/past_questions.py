"""Past questions that had a good answer, to be suggested to others.

What somebody types may tell of what only they may see. So a question is suggested only where enough different callers
have asked it who may see no more than the one who is to read it; whether the documents that answered it may be seen is
checked by whoever suggests.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from indexer.generation.lexical.analysis import fold
from rag.insights.callers import PERIODS
from rag.insights.events import parts_of, time_of
from rag.insights.store import DATABASE, open_to_read
from rag.query.results import PastQuestion
from rag.serving.scope import Scope
from rag.settings import Settings

MOST_READ = 50_000  # hits that were found good, the latest
MOST_SUGGESTED = 10  # for one text
_MOST_CHARACTERS = 100  # of a question that is worth reading while typing
_MOST_SCOPES = 100  # whose questions are kept apart
_GOOD = """
SELECT s.id, s.query, s.collection, s.caller, c.scope, p.document, f.verdict
FROM feedback f JOIN searches s ON s.id = f.search JOIN scopes c ON c.id = s.scope JOIN passages p ON p.id = f.passage
WHERE (f.opened OR f.verdict) AND s.caller IS NOT NULL AND NOT s.redacted AND length(s.query) <= ?
ORDER BY s.id DESC LIMIT ?
"""

Key = tuple[str, str]  # collection, folded question


@dataclass(slots=True)
class _Asked:
    """A question as those of one scope have asked it."""

    callers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # by the day or month of their hash
    texts: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)  # with their thumbs: an opened one counts a little


class PastQuestions:
    """The good questions of a store, in memory. `read` and the others may be called from different threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._period = PERIODS[settings.insights_callers] or "%Y"
        self._asked: dict[str, dict[Key, _Asked]] = {}  # by scope
        self._visible: dict[Scope, dict[str, list[tuple[str, PastQuestion]]]] = {}  # by scope and collection

    def read(self) -> None:
        """Read the store anew. Raises sqlite3.Error, OSError or InsightsError."""
        if not self._settings.insights_suggest or not (self._settings.insights_folder / DATABASE).is_file():
            return
        asked: dict[str, dict[Key, _Asked]] = {}
        with closing(open_to_read(self._settings.insights_folder)) as connection:
            rows = connection.execute(_GOOD, (_MOST_CHARACTERS, MOST_READ))
            for number, query, collection, caller, scope, document, verdict in rows:
                one = asked.setdefault(scope, {}).setdefault((collection, fold(query)), _Asked())
                if verdict >= 0:
                    one.callers[f"{datetime.fromtimestamp(time_of(number), UTC):{self._period}}"].add(caller)
                    one.texts[query] += 1
                one.documents[document] += verdict or 1
        self._asked, self._visible = asked, {}

    def matching(self, typed: str, collection: str, scope: Scope) -> Iterator[PastQuestion]:
        """Yield questions with what is typed at the beginning of a word, those most asked first, for one scope."""
        found = 0
        sought = f" {fold(' '.join(typed.split()))}"
        for folded, question in self._for(scope).get(collection, ()):
            if sought in folded:
                yield question
                found += 1
                if found == MOST_SUGGESTED:
                    return

    def _for(self, scope: Scope) -> dict[str, list[tuple[str, PastQuestion]]]:
        visible = self._visible
        if scope not in visible:
            if len(visible) >= _MOST_SCOPES:
                visible.clear()
            visible[scope] = self._merged(scope)
        return visible[scope]

    def _merged(self, reader: Scope) -> dict[str, list[tuple[str, PastQuestion]]]:
        """The questions of all who may see no more than a reader, by collection, the most asked first."""
        merged: dict[Key, _Asked] = defaultdict(_Asked)
        for scope, asked in self._asked.items():
            if not is_within(json.loads(scope), reader):
                continue
            for key, one in asked.items():
                for period, callers in one.callers.items():
                    merged[key].callers[period] |= callers
                merged[key].texts += one.texts
                merged[key].documents.update(one.documents)
        found: dict[str, list[tuple[int, str, PastQuestion]]] = defaultdict(list)
        for (collection, folded), one in merged.items():
            # hashes of two days may be of one caller, so each day is counted by itself
            most = max(map(len, one.callers.values()), default=0)
            good = frozenset(document for document, count in one.documents.items() if count > 0)
            if most >= self._settings.insights_suggest and good:
                question = PastQuestion(one.texts.most_common(1)[0][0], good)
                found[collection].append((most, f" {folded}", question))
        return {
            collection: [(folded, question) for _, folded, question in sorted(each, key=lambda one: -one[0])]
            for collection, each in found.items()
        }


def is_within(asker: Mapping[str, Any], reader: Scope) -> bool:
    """Return whether a scope, as the store keeps it, is surely a part of another: each part is, of one of that.

    Names of readers are kept as hashes, which are not compared: of two with names it is not known.
    """
    if reader.readers is not None and asker["readers"] != []:
        return False
    theirs = parts_of(reader)
    return all(any(_is_part_within(mine, each) for each in theirs) for mine in asker["parts"])


def _is_part_within(mine: Any, theirs: Any) -> bool:
    (my_names, my_filter), (their_names, their_filter) = mine, theirs
    if their_names is not None and (my_names is None or not set(my_names) <= set(their_names)):
        return False
    return their_filter is None or my_filter == their_filter

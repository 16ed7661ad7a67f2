"""Answers in words: a model writes them from the hits of a search, with citations that point to these."""

import re
import time
from collections.abc import Generator, Sequence
from contextlib import closing

from rag.answer.completion import Finished, complete
from rag.answer.prompt import Endpoint, Exchange, messages, seen
from rag.answer.support import Embed, Evidence, StatementReader
from rag.events import Event, event_of
from rag.query.results import Answer

MOST_STATEMENTS = 500  # of an answer that are judged
NOTHING_FOUND = "nothing found"  # the finish_reason of an answer that no model was asked for
_INSIDE = re.compile(r"[\d^,;–\- \t]{0,120}+")
_BLANKS = 8  # before a citation, that go with it where it is taken out
_TOKEN = re.compile(rf"```|`|\n|[ \t]{{0,{_BLANKS}}}\[({_INSIDE.pattern})\]")
_LONGEST_TOKEN = _BLANKS + 122
_NUMBERS = re.compile(r"(\d++)(?:[ \t]*+[-–][ \t]*+(\d++))?")


class CitationFilter:
    """Passes text on with every citation written [n], for n from 1 to count; others are taken out.

    Brackets in code are left alone: there, `[0]` is an index. `cited` has the numbers in the order of their first use.
    Each piece is read once, with what was held back of those before: less than a token.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = ""  # what may still become a token
        self._fenced = False  # inside a block of code
        self._inline = False  # inside code within a line
        self.cited: list[int] = []

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """Take the next piece of text; return what can be shown now."""
        text = self._held + text
        cut = len(text)
        if not is_last:
            least = max(0, cut - _LONGEST_TOKEN)
            bracket = text.rfind("[", least)
            if bracket >= 0 and _INSIDE.fullmatch(text, bracket + 1):
                cut = bracket
            elif text.endswith("`"):
                cut -= (len(text) - len(text.rstrip("`"))) % 3
            least = max(0, cut - _BLANKS)
            while cut > least and text[cut - 1] in " \t":
                cut -= 1
        self._held = text[cut:]
        return _TOKEN.sub(self._replace, text[:cut])

    def _replace(self, found: re.Match[str]) -> str:
        mark = found[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            ranges = [(int(first), int(last or first)) for first, last in _NUMBERS.findall(found[1])]
            numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
            self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
            space = mark[: mark.index("[")] if numbers else ""
            return space + "".join(f"[{number}]" for number in numbers) if ranges else mark  # a box to tick, say
        return mark


def write_answer(
    found: Answer,
    endpoint: Endpoint,
    question: str,
    history: Sequence[Exchange] = (),
    *,
    embed: Embed | None = None,
    support: float = 0.0,
) -> Generator[Event | None, None, None]:
    """Yield the events of an answer to a question: hits, then tokens with support, citations and done.

    None comes where nothing else has for a second. Closing the iterator ends the call of the endpoint.

    Args:
        found: the search that was made for the question.
        endpoint: what writes the answer.
        question: as it was asked.
        history: what was asked and answered before.
        embed: embeds statements, to be compared with the hits; None: words alone are compared.
        support: from which likeness on a hit supports a statement; 0: nothing is said of that.

    Raises:
        EndpointFailed: the endpoint cannot be reached, or fails.
        EndpointSlow: it took too long.
    """
    start = time.perf_counter()
    yield event_of("hits", found.as_dict())
    filtered, statements, judged = CitationFilter(len(found.hits)), StatementReader(), 0
    evidence = Evidence(found.hits, seen(found.hits), embed, support) if support and found.hits else None
    first_token: float | None = None  # milliseconds
    reason = NOTHING_FOUND
    with closing(complete(endpoint, messages(question, found.hits, history))) as written:
        for piece in written if found.hits else ():
            if piece is None:
                yield None
                continue
            is_last = isinstance(piece, Finished)
            reason = piece.reason if isinstance(piece, Finished) else reason
            text = filtered.feed("" if isinstance(piece, Finished) else piece, is_last=is_last)
            if text:
                first_token = first_token or _milliseconds_since(start)
                yield event_of("token", {"text": text})
            for statement in statements.feed(text, is_last=is_last) if evidence else ():
                judged += 1
                if evidence and judged <= MOST_STATEMENTS and (of := evidence.judge(statement)):
                    yield event_of("support", of._asdict() | {"score": round(of.score, 4)})
    cited = [(number, found.hits[number - 1]) for number in filtered.cited]
    citations = [
        {"number": number, "id": hit.id, "url": hit.url, "title": hit.title, "section": hit.section}
        for number, hit in cited
    ]
    yield event_of("citations", {"citations": citations})
    took = {"first_token": first_token, "answer": _milliseconds_since(start)}
    yield event_of("done", {"finish_reason": reason, "took_ms": took})


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)

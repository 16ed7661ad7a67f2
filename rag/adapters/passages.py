"""Documents and passages as text for a language model: delimited, under headings, within a budget of tokens."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, groupby, islice, takewhile
from typing import Any

from indexer.records import SEPARATOR
from rag import deadline
from rag.answer.prompt import delimited, neutralise
from rag.query.results import as_markdown, section_within
from rag.serving.live import OpenDocument

_CONTEXT_CHARS = 160
_MAX_MATCHES = 20
_REST_TOKENS = 12  # tokens of the line "… and 12 more"
_BATCH_PASSAGES = 16
_MAX_HEADING_CHARS = 2_000_000  # total of all paths; after that, only the last headings are kept
_MAX_ANCHOR_CHARS = 200
# Tokens by class of characters, fitted so that the sum is at least the count of each of five tokenizers (two of OpenAI,
# Claude 2, DeepSeek, WordPiece) for documentation, code, addresses, numbers, and text in a dozen scripts.
_TOKENS = {
    r"[A-Z]?[a-z]{2,}|[A-Z]{3,}": 0.98,  # words, also within names like getUserById
    r"(?<![A-Za-z])[A-Za-z]{1,2}(?![a-z])": 0.4,
    r"(?<=[A-Za-z]{6})[a-z]": 0.26,
    r"[A-Z](?=[A-Z0-9])": 0.3,
    r"[0-9]": 0.92,
    r"[!-/:-@\[-`{-~]": 1.31,
    r"[ \t]{2,}": 0.52,
    r"[A-Za-z0-9+/]{40}": 16.0,
    "[\u0080-\u024f]": 3.32,
    "[\u0250-\u07ff]": 1.9,
    "[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]": 2.0,
    "[\u0800-\u2fff\ua000-\uabff\ud7b0-\ud7ff\uf900-\ufeff]": 3.27,
    "[\U00010000-\U0010ffff]": 3.02,
}


def count_tokens(text: str) -> int:
    """Estimate a text's tokens for common tokenizers. The estimate is seldom too low."""
    return round(sum(cost * len(re.findall(pattern, text)) for pattern, cost in _TOKENS.items()) + 0.5)


class DocumentExcerpt:
    """Passages of a document by index. A run is a sequence of adjacent passages under one heading path."""

    def __init__(self, document: OpenDocument) -> None:
        """Take a document; then `load_headings` or `load_around` selects its passages."""
        self.document = document
        self.url, self.title = document.facts["url"], document.facts["title"]
        self.age = age_of(document.facts["fetched_at"], document.facts["date"])
        self.shown: set[int] = set()
        self.version = ""
        self._headings: dict[int, tuple[str, str, int]] = {}  # address, heading path, tokens
        self._passages: dict[int, dict[str, Any]] = {}
        self._costs: dict[int, int] = {}

    def load_headings(self) -> None:
        """Select all passages and read their headings; their texts are read on demand."""
        characters = 0
        path = short_path = ""
        for place, (url, section, tokens) in enumerate(self.document.headings()):
            if section != path:
                path, short_path = section, section
                characters += len(section)
                if characters > _MAX_HEADING_CHARS:
                    short_path = section.rpartition(SEPARATOR)[2]
            self._headings[place] = url, short_path, tokens

    def load_around(self, place: int, distance: int) -> int:
        """Select a passage and its neighbours up to a distance; return their number of characters."""
        first, characters = max(0, place - distance), 0
        for at, passage in enumerate(self.document.passages(first, place + distance + 1), first):
            self._headings[at] = passage["url"], passage["section"], 0
            self._passages[at] = passage
            characters += len(passage["text"])
        self.__dict__.pop("runs", None)
        return characters

    @cached_property
    def runs(self) -> list[range]:
        """The runs of the selected passages."""
        groups = groupby(enumerate(sorted(self._headings)), key=lambda each: (each[1] - each[0], self.section(each[1])))
        runs = [[place for _, place in run] for _, run in groups]
        return [range(run[0], run[-1] + 1) for run in runs]

    def run_of(self, place: int) -> range:
        """Return the run of a passage."""
        return next(run for run in self.runs if place in run)

    def section(self, place: int) -> str:
        """Return the heading path of a passage."""
        return self._headings[place][1]

    def passage(self, place: int) -> dict[str, Any]:
        """Return a passage; if it is not in memory, read it with some that follow."""
        if place not in self._passages:
            deadline.check()
            self._passages |= enumerate(self.document.passages(place, place + _BATCH_PASSAGES), place)
        return self._passages[place]

    def text(self, place: int) -> str:
        """Return the text of a passage as Markdown."""
        passage = self.passage(place)
        return as_markdown(passage["text"], passage["blocks"])

    def place_of(self, anchor: str) -> int | None:
        """Return the place of the first passage with an anchor, or with a heading of that name in its text."""
        for place, (url, _, _) in self._headings.items():
            if url.endswith(f"#{anchor}"):
                return place
        words = re.findall(r"\w+", anchor[:_MAX_ANCHOR_CHARS])
        if words:
            heading, place = line_of(words), 0
            for batch in self.document.batches():
                deadline.check()
                for passage in batch:
                    if heading.search(passage["text"]):
                        return place
                    place += 1
        return None

    def tokens(self, places: Iterable[int]) -> int:
        """Return the number of tokens of passages, as counted by the index."""
        return sum(self._headings[place][2] for place in places)

    def cost(self, places: Iterable[int]) -> int:
        """Estimate the tokens of passages from their texts."""
        return sum(map(self._cost, places))

    def _cost(self, place: int) -> int:
        if place not in self._costs:
            self._costs[place] = count_tokens(neutralise(self.text(place))) + 1
        return self._costs[place]

    def heading(self, row: int) -> str:
        """Return the title and heading path of a passage."""
        section = section_within(self.title, self._headings[row][1])
        return SEPARATOR.join(filter(None, [self.title, section])) or self.url

    def citation(self, rows: Sequence[int]) -> str:
        """Return the heading and the address of passages."""
        return f"{self.heading(rows[0])} ({self._headings[rows[0]][0]})"

    def block(self, number: int, rows: Sequence[int], text: str | None = None, **facts: str) -> str:
        """Enclose passages of a run, or `text` instead of them, in delimiters. An ellipsis marks each gap."""
        if text is None:
            stretches = groupby(enumerate(rows), key=lambda each: each[1] - each[0])
            text = "\n…\n".join("\n".join(self.text(row) for _, row in stretch) for _, stretch in stretches)
        url = self._headings[rows[0]][0]
        about = {"Section": self.heading(rows[0]), "Url": url, "Version": self.version, "Age": self.age}
        return delimited(number, about | facts, text)

    def blocks(self, rows: range, room: float, **facts: str) -> tuple[list[str], int | None]:
        """Return blocks of the rows that fit, and the first row that does not fit. The first block has the facts."""
        blocks: list[str] = []
        for run in self.runs:
            if not (inside := run[max(0, rows.start - run.start) : max(0, rows.stop - run.start)]):
                continue
            room -= count_tokens(self.block(10, inside, "", **facts))
            fitting = inside[: sum(1 for _ in takewhile(room.__ge__, accumulate(map(self._cost, inside))))]
            if not fitting and not blocks:
                cut_text = neutralise(self.text(inside[0]))
                cut_text = cut_text[: int(len(cut_text) * max(0.0, room - 20) / self._cost(inside[0]) * 0.8)]
                blocks.append(self.block(1, inside, f"{cut_text}… (cut: raise max_tokens)", **facts))
                fitting = inside[:1]
            elif fitting:
                blocks.append(self.block(len(blocks) + 1, fitting, **facts))
            if len(fitting) < len(inside):
                return blocks, inside[len(fitting)]
            room, facts = room - self.cost(fitting), {}
        return blocks, None

    def outline(self, room: float) -> str:
        """Return an outline of the headings, with sizes and addresses, as deep as the budget allows."""
        nodes: list[_Heading] = []
        above: list[_Heading] = []
        for run in self.runs:
            path = self.heading(run[0]).split(SEPARATOR)
            pairs = zip(above, path, strict=False)
            depth = sum(1 for _ in takewhile(lambda pair: pair[0].name == pair[1], pairs))
            for name in path[depth:]:
                url = self._headings[run[0]][0].removeprefix(self.url)
                nodes.append(_Heading(depth, name, url, above[depth - 1] if depth else None))
                above[depth:] = nodes[-1:]
                depth += 1
            del above[len(path) :]
            above[-1].tokens += self.tokens(run)
        deadline.check()
        for node in reversed(nodes):
            if node.parent is not None:
                node.parent.tokens += node.tokens
        lines = [f"{'  ' * node.depth}{node.name} ({node.tokens} tokens) {node.url}" for node in nodes]
        costs_by_depth: Counter[int] = Counter()
        for node, line in zip(nodes, lines, strict=True):
            costs_by_depth[node.depth] += count_tokens(neutralise(line)) + 1
        totals = accumulate(costs_by_depth[depth] for depth in range(len(costs_by_depth)))
        depth = max(1, sum(1 for _ in takewhile(room.__ge__, totals)))
        return fitting([line for node, line in zip(nodes, lines, strict=True) if node.depth < depth], room)


@dataclass(slots=True)
class _Heading:
    """A line of an outline."""

    depth: int
    name: str
    url: str
    parent: "_Heading | None"
    tokens: int = 0


def line_of(words: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of a line that has only these words, and punctuation."""
    together = r"[^\w\n]+".join(words)
    return re.compile(rf"^[^\w\n]*{together}[^\w\n]*$", re.IGNORECASE | re.MULTILINE)


def age_of(read: str, date: str | None) -> str:
    """Describe when a document was read, and its date."""
    minutes = max(0, int((datetime.now(UTC) - datetime.fromisoformat(read)).total_seconds() / 60))
    ago = f"{minutes // 1440} d" if minutes >= 2880 else f"{minutes // 60} h" if minutes >= 120 else f"{minutes} min"
    return f"read {ago} ago" + (f", page of {date}" if date else "")


def fitting(lines: Sequence[str], room: float) -> str:
    """Return the lines that fit into a budget, followed by a line with the number of lines left out."""
    costs = accumulate(count_tokens(neutralise(line)) + 1 for line in lines)
    number = sum(1 for _ in takewhile(lambda cost: cost + _REST_TOKENS <= room, costs))
    more = [f"… and {len(lines) - number} more"] * (number < len(lines))
    return "\n".join([*lines[:number], *more]) if number else ""


def excerpts_of(pattern: Any, text: str) -> str:
    """Return the lines around each match of a pattern; long lines are cut near the match."""
    spans: list[tuple[int, int]] = []
    for match in islice(pattern.finditer(text), _MAX_MATCHES):
        deadline.check()
        start, end = match.span()
        before = text.rfind("\n", 0, max(0, text.rfind("\n", 0, start))) + 1
        after = text.find("\n", text.find("\n", end) + 1 or len(text))
        before, after = (
            max(before, start - _CONTEXT_CHARS),
            min(len(text) if after < 0 else after, end + _CONTEXT_CHARS),
        )
        if spans and before <= spans[-1][1]:
            before = spans.pop()[0]
        spans.append((before, min(after, before + 1000)))
    return "\n…\n".join(text[before:after].strip() for before, after in spans)

"""Documents and passages as text for a model: between marks, by their headings, and counted in tokens."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, chain, groupby, islice, takewhile
from typing import Any

from indexer.records import SEPARATOR
from rag.answer.prompt import delimited, neutralise
from rag.query.results import section_within

_AROUND = 160  # characters of a line on either side of a match that are shown
_MATCHES = 20  # of one passage that are shown
_MORE = 12  # tokens that say how many lines are left out
# Tokens by class of characters, fitted so that the sum is at least the count of each of five tokenizers (two of OpenAI,
# Claude 2, DeepSeek, WordPiece) for documentation, code, addresses, numbers, and text in a dozen scripts.
_TOKENS = {
    r"[A-Z]?[a-z]{2,}|[A-Z]{3,}": 0.98,  # words, and those within a name like getUserById
    r"(?<![A-Za-z])[A-Za-z]{1,2}(?![a-z])": 0.4,
    r"(?<=[A-Za-z]{6})[a-z]": 0.26,
    r"[A-Z](?=[A-Z0-9])": 0.3,
    r"[0-9]": 0.92,
    r"[!-/:-@\[-`{-~]": 1.31,
    r"[ \t]{2,}": 0.52,
    r"[A-Za-z0-9+/]{40}": 16.0,  # on top of its parts: keys and pictures in base64
    "[\u0080-\u024f]": 3.32,
    "[\u0250-\u07ff]": 1.9,
    "[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]": 2.0,
    "[\u0800-\u2fff\ua000-\uabff\ud7b0-\ud7ff\uf900-\ufeff]": 3.27,
    "[\U00010000-\U0010ffff]": 3.02,
}


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has: rather too many than too few, by any usual tokenizer."""
    return round(sum(cost * len(re.findall(pattern, text)) for pattern, cost in _TOKENS.items()) + 0.5)


class DocumentExcerpt:
    """A document by its passages, and its runs: passages in a row with one heading path."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.url, self.title, self.passages = found["url"], found["title"], found["passages"]
        self.age = age_of(found["fetched_at"], found["date"])
        self.rows = {passage["id"]: row for row, passage in enumerate(self.passages)}
        rows = range(len(self.passages))
        runs = [list(run) for _, run in groupby(rows, key=lambda row: self.passages[row]["section"])]
        self.runs = [range(run[0], run[-1] + 1) for run in runs]
        self.shown: set[int] = set()  # rows
        self.version = ""
        self._costs: dict[int, int] = {}

    def row_at(self, anchor: str) -> int | None:
        """Return the first passage with an anchor, or with a heading of that name: it may begin with short sections."""
        words = re.findall(r"\w+", anchor)
        heading = line_of(words)
        exact = (row for row, each in enumerate(self.passages) if each["url"].endswith(f"#{anchor}"))
        named = (row for row, each in enumerate(self.passages) if words and heading.search(each["text"]))
        return next(chain(exact, named), None)

    def cost(self, rows: Iterable[int]) -> int:
        """Return the tokens of passages."""
        return sum(map(self._cost, rows))

    def _cost(self, row: int) -> int:
        if row not in self._costs:
            self._costs[row] = count_tokens(neutralise(self.passages[row]["text"])) + 1
        return self._costs[row]

    def heading(self, row: int) -> str:
        """Return the title and heading path of a passage."""
        section = section_within(self.title, self.passages[row]["section"])
        return SEPARATOR.join(filter(None, [self.title, section])) or self.url

    def named(self, rows: Sequence[int]) -> str:
        """Return the heading of passages with their address."""
        return f"{self.heading(rows[0])} ({self.passages[rows[0]]['url']})"

    def block(self, number: int, rows: Sequence[int], text: str | None = None, **facts: str) -> str:
        """Return passages of a run between marks, with an ellipsis where others are between them; or another text."""
        if text is None:
            parts = groupby(enumerate(rows), key=lambda each: each[1] - each[0])  # without gaps
            text = "\n…\n".join("\n".join(self.passages[row]["text"] for _, row in part) for _, part in parts)
        url = self.passages[rows[0]]["url"]
        about = {"Section": self.heading(rows[0]), "Url": url, "Version": self.version, "Age": self.age}
        return delimited(number, about | facts, text)

    def blocks(self, rows: range, room: float, **facts: str) -> tuple[list[str], int | None]:
        """Return the first of some rows, by their runs, and the row to go on with; the facts go to the first run."""
        blocks: list[str] = []
        for run in self.runs:
            if not (inside := run[max(0, rows.start - run.start) : max(0, rows.stop - run.start)]):
                continue
            room -= count_tokens(self.block(10, inside, "", **facts))
            fitting = inside[: sum(1 for _ in takewhile(room.__ge__, accumulate(map(self._cost, inside))))]
            if not fitting and not blocks:  # one passage that is longer than the budget
                part = neutralise(self.passages[inside[0]]["text"])
                part = part[: int(len(part) * max(0.0, room - 20) / self._cost(inside[0]) * 0.8)]
                blocks.append(self.block(1, inside, f"{part}… (cut: raise max_tokens)", **facts))
                fitting = inside[:1]
            elif fitting:
                blocks.append(self.block(len(blocks) + 1, fitting, **facts))
            if len(fitting) < len(inside):
                return blocks, inside[len(fitting)]
            room, facts = room - self.cost(fitting), {}
        return blocks, None

    def outline(self, room: float) -> str:
        """Return all headings with their sizes and addresses, as deep as there is room for."""
        paths = [self.heading(run[0]).split(SEPARATOR) for run in self.runs]
        for depth in range(max(map(len, paths)), 0, -1):
            lines = []
            for _, group in groupby(zip(paths, self.runs, strict=True), key=lambda pair: pair[0][:depth]):
                members = list(group)
                path, url = members[0][0][:depth], self.passages[members[0][1][0]]["url"].removeprefix(self.url)
                size = sum(self.cost(run) for _, run in members)
                lines.append(f"{'  ' * (len(path) - 1)}{path[-1]} ({size} tokens) {url}")
            if count_tokens("\n".join(lines)) <= room:
                break
        return fitting(lines, room)


def line_of(words: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of a line that has these words alone, whatever signs are around them."""
    together = r"[^\w\n]+".join(words)
    return re.compile(rf"^[^\w\n]*{together}[^\w\n]*$", re.IGNORECASE | re.MULTILINE)


def age_of(read: str, date: str | None) -> str:
    """Return when a document was read, and of when it is, in words."""
    minutes = max(0, int((datetime.now(UTC) - datetime.fromisoformat(read)).total_seconds() / 60))
    ago = f"{minutes // 1440} d" if minutes >= 2880 else f"{minutes // 60} h" if minutes >= 120 else f"{minutes} min"
    return f"read {ago} ago" + (f", page of {date}" if date else "")


def fitting(lines: Sequence[str], room: float) -> str:
    """Return the lines for which there is room, and how many there are besides."""
    costs = accumulate(count_tokens(neutralise(line)) + 1 for line in lines)
    number = sum(1 for _ in takewhile(lambda cost: cost + _MORE <= room, costs))
    more = [f"… and {len(lines) - number} more"] * (number < len(lines))
    return "\n".join([*lines[:number], *more]) if number else ""


def excerpts_of(pattern: Any, text: str) -> str:
    """Return the lines of a text with matches and one line around each; of long lines, what is near the match."""
    spans: list[tuple[int, int]] = []
    for match in islice(pattern.finditer(text), _MATCHES):
        start, end = match.span()
        before = text.rfind("\n", 0, max(0, text.rfind("\n", 0, start))) + 1
        after = text.find("\n", text.find("\n", end) + 1 or len(text))
        before, after = max(before, start - _AROUND), min(len(text) if after < 0 else after, end + _AROUND)
        if spans and before <= spans[-1][1]:
            before = spans.pop()[0]
        spans.append((before, min(after, before + 1000)))
    return "\n…\n".join(text[before:after].strip() for before, after in spans)

"""Format documents and passages as delimited text for a language model, up to a maximum number of tokens."""

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
_LAST_LINE_TOKENS = 12  # a line such as "… and 12 more"
_BATCH_PASSAGES = 16
_MAX_HEADING_CHARS = 2_000_000  # all heading paths of a document; later paths are shortened
_MAX_ANCHOR_CHARS = 200
# The number of tokens for each match of a pattern. For documentation, code, addresses, numbers and prose in a dozen
# scripts, the sum is at least the token count of five tokenizers: two of OpenAI, Claude 2, DeepSeek and WordPiece.
_TOKENS = {
    r"[A-Z]?[a-z]{2,}|[A-Z]{3,}": 0.98,  # words, including those in names such as getUserById
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
    """Estimate the number of tokens in a text for common language models. The estimate is rarely too low."""
    return round(sum(cost * len(re.findall(pattern, text)) for pattern, cost in _TOKENS.items()) + 0.5)


class DocumentExcerpt:
    """Passages that `load_headings` or `load_around` select from a document. Passages have indexes in the document."""

    def __init__(self, document: OpenDocument) -> None:
        self.document = document
        self.url, self.title = document.facts["url"], document.facts["title"]
        self.age = age_of(document.facts["fetched_at"], document.facts["date"])
        self.shown: set[int] = set()
        self.version = ""
        self._headings: dict[int, tuple[str, str, int]] = {}  # address, heading path, tokens
        self._passages: dict[int, dict[str, Any]] = {}
        self._costs: dict[int, int] = {}

    def load_headings(self) -> None:
        """Select all passages and read their headings. The texts of passages are read on demand."""
        characters = 0
        path = short_path = ""
        for index, (url, section, tokens) in enumerate(self.document.headings()):
            if section != path:
                path, short_path = section, section
                characters += len(section)
                if characters > _MAX_HEADING_CHARS:
                    short_path = section.rpartition(SEPARATOR)[2]
            self._headings[index] = url, short_path, tokens

    def load_around(self, index: int, distance: int) -> int:
        """Select a passage and up to `distance` passages on each side. Returns their total length in characters."""
        first, characters = max(0, index - distance), 0
        for at, passage in enumerate(self.document.passages(first, index + distance + 1), first):
            self._headings[at] = passage["url"], passage["section"], 0
            self._passages[at] = passage
            characters += len(passage["text"])
        self.__dict__.pop("runs", None)
        return characters

    @cached_property
    def runs(self) -> list[range]:
        """The indexes of selected passages as ranges, one for each series of passages with the same heading path."""
        groups = groupby(enumerate(sorted(self._headings)), key=lambda each: (each[1] - each[0], self.section(each[1])))
        runs = [[index for _, index in run] for _, run in groups]
        return [range(run[0], run[-1] + 1) for run in runs]

    def run_of(self, index: int) -> range:
        """Return the range of `runs` that contains a passage."""
        return next(run for run in self.runs if index in run)

    def section(self, index: int) -> str:
        """Return the heading path of a passage."""
        return self._headings[index][1]

    def passage(self, index: int) -> dict[str, Any]:
        """Return a passage, JSON-ready. Passages are read from the index in batches and cached."""
        if index not in self._passages:
            deadline.check()
            self._passages |= enumerate(self.document.passages(index, index + _BATCH_PASSAGES), index)
        return self._passages[index]

    def text(self, index: int) -> str:
        """Return the text of a passage as Markdown."""
        passage = self.passage(index)
        return as_markdown(passage["text"], passage["blocks"])

    def index_of(self, anchor: str) -> int | None:
        """Return the index of the passage to which an anchor leads, or None.

        If no passage has the anchor in its address, search for a line that consists of the words in the anchor.
        """
        for index, (url, _, _) in self._headings.items():
            if url.endswith(f"#{anchor}"):
                return index
        words = re.findall(r"\w+", anchor[:_MAX_ANCHOR_CHARS])
        if words:
            heading, index = line_of(words), 0
            for batch in self.document.batches():
                deadline.check()
                for passage in batch:
                    if heading.search(passage["text"]):
                        return index
                    index += 1
        return None

    def tokens(self, indexes: Iterable[int]) -> int:
        """Return the total number of tokens in passages, as the embedder counted them when the document was indexed."""
        return sum(self._headings[index][2] for index in indexes)

    def cost(self, indexes: Iterable[int]) -> int:
        """Estimate the total number of tokens in passages for a language model."""
        return sum(map(self._cost, indexes))

    def _cost(self, index: int) -> int:
        if index not in self._costs:
            self._costs[index] = count_tokens(neutralise(self.text(index))) + 1
        return self._costs[index]

    def heading(self, index: int) -> str:
        """Return the title of the document joined with the heading path of a passage."""
        section = section_within(self.title, self._headings[index][1])
        return SEPARATOR.join(filter(None, [self.title, section])) or self.url

    def citation(self, indexes: Sequence[int]) -> str:
        """Return the heading path and the address of the first passage in `indexes`."""
        return f"{self.heading(indexes[0])} ({self._headings[indexes[0]][0]})"

    def block(self, number: int, indexes: Sequence[int], text: str | None = None, **facts: str) -> str:
        """Return a block of text between delimiters. Its header has `number`, the section, the address and `facts`.

        If `text` is None, the block contains the passages, with an ellipsis for each gap between passages.
        """
        if text is None:
            stretches = groupby(enumerate(indexes), key=lambda each: each[1] - each[0])
            text = "\n…\n".join("\n".join(self.text(index) for _, index in stretch) for _, stretch in stretches)
        url = self._headings[indexes[0]][0]
        about = {"Section": self.heading(indexes[0]), "Url": url, "Version": self.version, "Age": self.age}
        return delimited(number, about | facts, text)

    def blocks(self, indexes: range, budget: float, **facts: str) -> tuple[list[str], int | None]:
        """Return passages as blocks, one per section, and the index of the first passage that did not fit, or None.

        Args:
            indexes: passages to return.
            budget: maximum number of tokens.
            facts: names and values to add to the header of the first block.
        """
        blocks: list[str] = []
        for run in self.runs:
            if not (inside := run[max(0, indexes.start - run.start) : max(0, indexes.stop - run.start)]):
                continue
            budget -= count_tokens(self.block(10, inside, "", **facts))
            fitting = inside[: sum(1 for _ in takewhile(budget.__ge__, accumulate(map(self._cost, inside))))]
            if not fitting and not blocks:
                cut_text = neutralise(self.text(inside[0]))
                cut_text = cut_text[: int(len(cut_text) * max(0.0, budget - 20) / self._cost(inside[0]) * 0.8)]
                blocks.append(self.block(1, inside, f"{cut_text}… (cut: raise max_tokens)", **facts))
                fitting = inside[:1]
            elif fitting:
                blocks.append(self.block(len(blocks) + 1, fitting, **facts))
            if len(fitting) < len(inside):
                return blocks, inside[len(fitting)]
            budget, facts = budget - self.cost(fitting), {}
        return blocks, None

    def outline(self, budget: float) -> str:
        """Return the headings with the address and size of each section. Omits subheadings to fit `budget` tokens."""
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
        depth = max(1, sum(1 for _ in takewhile(budget.__ge__, totals)))
        return fitting([line for node, line in zip(nodes, lines, strict=True) if node.depth < depth], budget)


@dataclass(slots=True)
class _Heading:
    """A heading in an outline, with the number of tokens in its section."""

    depth: int
    name: str
    url: str
    parent: "_Heading | None"
    tokens: int = 0


def line_of(words: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches a line with these words and nothing else except punctuation."""
    together = r"[^\w\n]+".join(words)
    return re.compile(rf"^[^\w\n]*{together}[^\w\n]*$", re.IGNORECASE | re.MULTILINE)


def age_of(read: str, date: str | None) -> str:
    """Describe the age of a document, such as "read 3 d ago, page of 2024-05-01"."""
    minutes = max(0, int((datetime.now(UTC) - datetime.fromisoformat(read)).total_seconds() / 60))
    ago = f"{minutes // 1440} d" if minutes >= 2880 else f"{minutes // 60} h" if minutes >= 120 else f"{minutes} min"
    return f"read {ago} ago" + (f", page of {date}" if date else "")


def fitting(lines: Sequence[str], budget: float) -> str:
    """Join the first lines, up to `budget` tokens. If lines are omitted, the last line says how many."""
    costs = accumulate(count_tokens(neutralise(line)) + 1 for line in lines)
    number = sum(1 for _ in takewhile(lambda cost: cost + _LAST_LINE_TOKENS <= budget, costs))
    more = [f"… and {len(lines) - number} more"] * (number < len(lines))
    return "\n".join([*lines[:number], *more]) if number else ""


def excerpts_of(pattern: Any, text: str) -> str:
    """Return each match of a pattern with the line before and the line after it. Long lines are truncated."""
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

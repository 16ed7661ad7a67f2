"""Citations such as [2] in text that a model writes: those that point nowhere are dropped while it streams by."""

import re

_INSIDE = r"[\d^,;–\- \t]"
_TOKEN = re.compile(rf"```|`|\n|[ \t]*\[({_INSIDE}{{1,120}})\]")
_OPEN = re.compile(rf"(?:(?<!`)`{{1,2}}|[ \t]*(?:\[{_INSIDE}{{0,120}})?)\Z")  # what may still become one of these
_NUMBERS = re.compile(r"(\d+)(?:\s*[-–]\s*(\d+))?")


class CitationFilter:
    """Passes text on with every citation written [n], for n from 1 to count; others are taken out.

    Brackets in code are left alone: there, `[0]` is an index. `cited` has the numbers in the order of their first use.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._buffer = ""
        self._fenced = False  # inside a block of code
        self._inline = False  # inside code within a line
        self.cited: list[int] = []

    def feed(self, text: str) -> str:
        """Take the next piece of text; return what can be shown now."""
        self._buffer += text
        found = _OPEN.search(self._buffer)
        cut = found.start() if found else len(self._buffer)
        ready, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return _TOKEN.sub(self._replace, ready)

    def end(self) -> str:
        """Return what was held back."""
        ready, self._buffer = self._buffer, ""
        return _TOKEN.sub(self._replace, ready)

    def _replace(self, found: re.Match[str]) -> str:
        mark = found[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            return self._citation(mark, found[1])
        return mark

    def _citation(self, mark: str, inside: str) -> str:
        ranges = [(int(first), int(last or first)) for first, last in _NUMBERS.findall(inside)]
        if not ranges:
            return mark  # a box to tick, say
        numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
        self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
        space = mark[: mark.index("[")] if numbers else ""
        return space + "".join(f"[{number}]" for number in numbers)

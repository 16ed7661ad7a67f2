"""The addresses of a site that are wanted, by patterns in the notation of robots.txt."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from indexer.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Scope:
    """Patterns of paths: each matches the beginning of a path; `*` stands for any characters, `$` for the end."""

    include: tuple[str, ...] = ()  # none means every page
    exclude: tuple[str, ...] = ()  # goes before include

    def __post_init__(self) -> None:
        for pattern in self.include + self.exclude:
            if not pattern.startswith(("/", "*")):
                raise ConfigError(
                    f"include and exclude are patterns of paths such as /docs/ or *.html$, not {pattern!r}: "
                    "begin with / or *"
                )

    def refusal(self, url: str) -> str | None:
        """Say which rule leaves an address out, or None if it is wanted."""
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        for pattern in self.exclude:
            if _matches(pattern, path):
                return f"excluded by {pattern}"
        if self.include and not any(_matches(pattern, path) for pattern in self.include):
            return "excluded by --include"
        return None


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a comma-separated list."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _matches(pattern: str, path: str) -> bool:
    *_, last = pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    ends = pattern.endswith("$")
    if len(pieces) == 1:
        return not ends or path == pieces[0]
    place = len(pieces[0])
    for piece in pieces[1:-1]:  # the first place that fits leaves most to the rest, so there is nothing to try again
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return path.endswith(last) and len(path) - len(last) >= place if ends else path.find(last, place) >= 0

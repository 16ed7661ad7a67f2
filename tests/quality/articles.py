"""What is read of single pages that no template is known of: articles, blogs, forums, wikis, shops, answers.

`python -m tests.quality.articles` measures 60 pages, two of each of 30 kinds of markup. The markup is in
`tests/quality/articles`, with the page's own text in double brackets; the words are drawn from sentences that were
written for this. The held-out half was written before anything was read of it.
"""

import random
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from indexer.read.html.main_content import read
from tests.quality.gold import words

FOLDER = Path(__file__).parent / "articles"
HALVES = ("development", "held-out")
_SLOT = re.compile(r"\{([pshncx])\}")
_OWN = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_TITLE = re.compile(r"<(?:title|h1)\b[^>]*>(.*?)</(?:title|h1)>")
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Saved:
    """A page, and the text on it that is its own."""

    name: str
    kind: str
    body: bytes
    own: str


def saved(half: str) -> Iterator[Saved]:
    """Make the pages of a half, the same ones each time."""
    vocabulary = tomllib.loads((FOLDER / "words.toml").read_text("utf-8"))
    for block in (FOLDER / f"{half}.txt").read_text("utf-8").split("\n== "):
        head, _, markup = block.removeprefix("== ").partition("\n")
        name, kind, languages = (part.strip() for part in head.split("|"))
        for number, language in enumerate(languages.split()):
            page = _filled(markup, vocabulary[language], random.Random(f"{name} {number}"))
            own = "\n".join(_TAG.sub("", text.replace("<br>", "\n")) for text in _OWN.findall(page))
            yield Saved(f"{name} {number + 1}", kind, page.replace("[[", "").replace("]]", "").encode(), own)


def _filled(markup: str, vocabulary: Mapping[str, list[str]], chance: random.Random) -> str:
    """Repeat lines that begin with "*N ", and fill slots: paragraph, sentence, headline, name, comment, number."""
    lines = []
    for line in markup.splitlines():
        times, text = (int(line[1]), line[3:]) if line.startswith("*") else (1, line)
        lines += [text] * times
    fill: dict[str, Callable[[], str]] = {
        "p": lambda: " ".join(chance.sample(vocabulary["sentences"], chance.randint(2, 4))),
        "s": lambda: chance.choice(vocabulary["sentences"]),
        "h": lambda: chance.choice(vocabulary["headlines"]),
        "n": lambda: chance.choice(vocabulary["names"]),
        "c": lambda: chance.choice(vocabulary["remarks"]),
        "x": lambda: str(chance.randint(2, 9)),
    }
    return _SLOT.sub(lambda slot: fill[slot[1]](), "\n".join(lines))


def pilotlight(body: bytes) -> str:
    """Read a page as a single file."""
    return "\n\n".join("\n".join((*section.path[-1:], section.text)) for section in read(body, None).sections)


def f1(read_text: str, own: str, title: str) -> float:
    """Harmonic mean of the share of words kept and the share of what was read that is its own; titles are both."""
    found, wanted = Counter(words(read_text)), Counter(words(own))
    found -= Counter(words(title)) & (found - wanted)
    return 2 * (found & wanted).total() / max(1, found.total() + wanted.total())


def measure(half: str) -> dict[str, float]:
    """Read the pages of a half: the F1 of each by its name."""
    return {page.name: f1(pilotlight(page.body), page.own, _title(page.body)) for page in saved(half)}


def _title(body: bytes) -> str:
    return " ".join(_TITLE.findall(body.decode()))


def main() -> None:
    """Measure both halves, and print the mean, that of each kind, and each page."""
    for half in HALVES:
        found = measure(half)
        print(f"{half}: {fmean(found.values()):.3f}")
        kinds = {page.name: page.kind for page in saved(half)}
        for kind in sorted(set(kinds.values())):
            pages = {name: value for name, value in found.items() if kinds[name] == kind}
            print(f"  {fmean(pages.values()):.3f} {kind}: " + ", ".join(f"{n} {v:.3f}" for n, v in pages.items()))


if __name__ == "__main__":
    main()

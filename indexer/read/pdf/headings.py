"""Which blocks of a document are headings, and of which level: by its outline, or else by sizes and weights of type."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from indexer.read.pdf.outline import Entry
from indexer.read.pdf.paragraphs import Block

_LARGER = 1.1  # times the usual size
_LONGEST = 160  # characters of a heading by its type
_DEEPEST = 6  # levels by type
_MOST = 0.34  # share of blocks that may look like headings, or the look says nothing
_NUMBER = re.compile(
    r"^(?:(?:chapter|appendix|part|section|kapitel|chapitre)\s+)?(?:\d+|[A-Z]|[IVXL]+)?(?:\.?\d+)*[.):]?\s+",
    re.IGNORECASE,
)
_NOT_WORD = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W\d_]{3}")
_ENDS_A_SENTENCE = (".", ",", ";", ":")
Place = tuple[int, int]  # page and block on it, from 0
Level = tuple[int, str]  # 0 is the outermost; the heading's text


def by_outline(entries: Sequence[Entry], pages: Sequence[Sequence[Block]]) -> dict[Place, Level]:
    """Return the blocks that entries of the outline lead to: on its page, the first one that says its title."""
    found: dict[Place, Level] = {}
    on_page: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.title and 0 <= entry.page < len(pages):
            on_page[entry.page].append(entry)
    for page, named in on_page.items():
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, block in enumerate(pages[page]):
            if block.is_short:
                for key in _keys(block.text):
                    places[key].append(place)
        after = -1
        for entry in named:
            known = (place for key in _keys(entry.title) for place in places.get(key, ()) if (page, place) not in found)
            place = min(known, key=lambda place: (place <= after, place), default=-1)
            if place >= 0:
                found[page, place] = entry.level, _plain(pages[page][place])
                after = place
    return found


def _keys(text: str) -> set[str]:
    """A title as it may be compared: with and without its number."""
    return {key for part in (text, _NUMBER.sub("", text, count=1)) if (key := _NOT_WORD.sub("", part).casefold())}


def by_type(pages: Sequence[Sequence[Block]]) -> dict[Place, Level]:
    """Return the blocks that are set in larger or heavier type than the text; the largest are the outermost."""
    blocks = [block for page in pages for block in page]
    sizes: Counter[float] = Counter()
    for block in blocks:
        if block.kind in ("text", "item"):
            sizes[block.size] += len(block.text)
    if not sizes:
        return {}
    usual = max(sizes, key=lambda size: sizes[size])
    likely = {
        (page, place): block
        for page, found in enumerate(pages)
        for place, block in enumerate(found)
        if _stands_out(block, usual)
    }
    if len(likely) > _MOST * max(len(blocks), 1) and len(likely) > len(pages):
        likely = {place: block for place, block in likely.items() if block.size >= 1.3 * usual}
    styles = sorted({_style(block, usual) for block in likely.values()}, reverse=True)
    levels = {style: min(level, _DEEPEST - 1) for level, style in enumerate(styles)}
    return {place: (levels[_style(block, usual)], _plain(block)) for place, block in likely.items()}


def _style(block: Block, usual: float) -> tuple[float, bool]:
    return max(block.size, usual), block.is_bold


def _stands_out(block: Block, usual: float) -> bool:
    if (
        block.kind in ("table", "code")
        or block.is_bullet
        or not block.is_short
        or len(block.text) > _LONGEST
        or not _WORD.search(block.text)
    ):
        return False
    is_plain = not block.text.endswith(_ENDS_A_SENTENCE)
    if block.size >= _LARGER * usual:
        return is_plain
    if block.size < 0.95 * usual:
        return False
    letters = [letter for letter in block.text if letter.isalpha()]
    capitals = len(letters) > 4 and all(letter.isupper() for letter in letters)
    return is_plain and "\n" not in block.text and (block.is_bold or (capitals and block.kind == "text"))


def _plain(block: Block) -> str:
    return " ".join(block.text.split())


def paths(headings: Mapping[Place, Level]) -> dict[Place, tuple[str, ...]]:
    """Return for every heading its path, from the outermost to itself."""
    found: dict[Place, tuple[str, ...]] = {}
    above: list[Level] = []
    for place, (level, text) in sorted(headings.items()):
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, text))
        found[place] = tuple(name for _, name in above)
    return found

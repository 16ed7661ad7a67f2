"""A page's words to blocks in reading order."""

from collections.abc import Collection

from indexer.read.pdf.characters import Characters
from indexer.read.pdf.columns import in_order
from indexer.read.pdf.grids import with_spans
from indexer.read.pdf.lines import Line, lines_of
from indexer.read.pdf.paragraphs import Block, blocks_of
from indexer.read.pdf.running_heads import edges_of, ends_of
from indexer.read.pdf.tables import Table, ruled, unruled


class Page:
    """A page that is read but not laid out yet, as its neighbours tell what its running heads are."""

    def __init__(self, characters: Characters) -> None:
        self.characters = characters
        self.lines = lines_of((*characters.words, *characters.filled))
        self.ends = ends_of(self.lines)
        self.edges = edges_of(self.lines, *characters.height) if self.lines else []


def laid_out(page: Page, heads: Collection[int]) -> list[Block]:
    """Return the blocks of a page in reading order, without the lines of these identities."""
    found = page.characters
    opened = [Block("text", note) for note in found.notes]
    if not page.lines:
        return [Block("page", found.text), *opened] if found.text.strip() else opened
    own = [line for line in page.lines if id(line) not in heads] or page.lines  # what is all of a page is no head of it
    spanned, own, drawn = with_spans(own, found.rules)
    tables, lines = ruled(own, drawn)
    units: list[Line | Table] = [*spanned, *tables, *lines]
    blocks = [block for column in in_order(units) for block in blocks_of(unruled(column))]
    blocks += [block for turned in found.turned for block in laid_out(Page(turned), ())]
    if found.aside:
        blocks.append(Block("text", " ".join(found.aside)))
    return blocks + opened

"""Define the limits, the previous generation and the callbacks that a source gets when it is read."""

from collections.abc import Callable
from dataclasses import dataclass, field

from indexer.config import CrawlLimits
from indexer.generation.previous import PreviousGeneration
from indexer.read.document_reader import PageParts
from indexer.read.formats import OCR_OFF
from indexer.records import Page


@dataclass(frozen=True, slots=True)
class SourceContext:
    """A source of a build, with its limits and the previous generation."""

    source: str
    limits: CrawlLimits
    report_due: Callable[[int], None] = lambda _: None
    earlier: PreviousGeneration = field(default_factory=PreviousGeneration)
    no_images: str = OCR_OFF  # reason why images are not read, or empty
    # says which parts of a page to read, such as its links; called from several threads
    parts_of: Callable[[Page], PageParts] = lambda _: PageParts(links=True)

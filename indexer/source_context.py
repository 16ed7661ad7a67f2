"""The limits, the callbacks and the index of the previous build, which are used to read a source."""

from collections.abc import Callable
from dataclasses import dataclass, field

from indexer.config import CrawlLimits
from indexer.generation.previous import PreviousGeneration
from indexer.read.document_reader import PageParts
from indexer.read.formats import OCR_OFF
from indexer.records import Page


@dataclass(frozen=True, slots=True)
class SourceContext:
    """A source to read, with its limits. `earlier` contains its documents in the index of the previous build."""

    source: str
    limits: CrawlLimits
    report_due: Callable[[int], None] = lambda _: None
    earlier: PreviousGeneration = field(default_factory=PreviousGeneration)
    no_images: str = OCR_OFF  # reason why images are not read, or empty
    # returns the parts of a page that should be read, such as its links; called from several threads
    parts_of: Callable[[Page], PageParts] = lambda _: PageParts(links=True)

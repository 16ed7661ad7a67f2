"""The protocol of machines that work for a build."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from embedder.late_interaction import DocumentTokens
from indexer.config import ChunkConfig
from indexer.read.ocr.installation import Ocr
from indexer.records import Page, Parsed

AHEAD = 16  # items taken from the source before the build has dealt with the first of them
T_co = TypeVar("T_co", covariant=True)


class ToCome(Protocol[T_co]):
    """Something that is being made, here or elsewhere."""

    def result(self) -> T_co:
        """Wait for it; raises what went wrong."""


class Readers(Protocol):
    """Whoever reads pages: processes of this machine, or other machines."""

    @property
    def pages(self) -> int:
        """How many pages may be on their way."""

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> ToCome[Parsed]:
        """Begin to read a page, and to cut it where that is done elsewhere; its result may raise ParseError."""


class Machines(Readers, Protocol):
    """Machines that read, cut and embed; see `indexer.pipeline.ray.driver`."""

    @property
    def blocks(self) -> int:
        """How many blocks of texts may be on their way."""

    def encode(
        self, texts: Sequence[str], took: Callable[[Mapping[str, float]], None], *, tokens: bool = False
    ) -> ToCome[DocumentTokens]:
        """Begin to embed texts, with their tokens if those are wanted. `took` is told the seconds by stage."""

"""The value that all steps of a build share."""

from dataclasses import dataclass, field

from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.generation.previous import PreviousGeneration
from indexer.pipeline.machines import Machines
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import Ledger
from indexer.read.ocr.installation import Ocr


@dataclass(frozen=True, slots=True)
class BuildContext:
    """One build: its settings, what it may take over, who works for it and who is told."""

    config: BuildConfig
    earlier: PreviousGeneration  # the live generation
    embedder: Embedder | None  # None where nothing is embedded
    progress: Progress
    ocr: Ocr  # reads scans, or says why they are not read
    cluster: Machines | None = None  # reads, cuts and embeds instead of this machine
    ledger: Ledger = field(default_factory=Ledger)

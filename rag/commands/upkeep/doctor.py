"""`pilotlight doctor`."""

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "embedder", "rerank", "ocr", "credentials_file", "render", "users")
def doctor(settings: Settings) -> Result:
    """Say what is in use, and what about it is slow or broken."""
    from rag.commands.upkeep.diagnosis import as_text, examine

    report = examine(settings)
    return report, as_text(report)

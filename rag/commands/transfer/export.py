"""`pilotlight export`."""

from pathlib import Path

import click

from rag.commands.verb import PATH, Result, verb
from rag.errors import SettingsError
from rag.settings import Settings

# Endings of archives that are not written; any other name is the user's choice.
_OTHER_ARCHIVES = {".zip", ".7z", ".rar", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".tzst", ".lz4", ".jar"}


@verb("index")
@click.argument(
    "file",
    type=PATH,
    help="the archive; an existing file is replaced; .gz and .tgz are compressed",
)
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
@click.option("--jsonl", is_flag=True, help="write the documents as JSON Lines instead")
def export(settings: Settings, *, file: Path, generation: str | None, jsonl: bool) -> Result:
    """Write a generation into an archive, or its documents into a file of JSON Lines."""
    from indexer.number_format import counted
    from indexer.publish.archive import export_archive, export_documents
    from rag.commands.published import described, published

    if not jsonl and file.suffix.lower() in _OTHER_ARCHIVES:
        raise SettingsError(f"cannot export to {file}: use a name that ends in .tar, .tar.gz or .tgz")
    index = published(settings)
    manifest = (export_documents if jsonl else export_archive)(index, file, generation)
    size = file.stat().st_size
    report = {"file": str(file), "file_bytes": size, **described(manifest)}
    what = counted(manifest.counts.documents, "document") if jsonl else f"generation {manifest.id}"
    return report, f"wrote {what} to {file}, {size / 1e6:,.1f} MB"

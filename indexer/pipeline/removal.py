"""Sources out of an index: the live generation again, without their documents."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from indexer.config import BuildConfig
from indexer.errors import NothingToIndex, SourceError
from indexer.generation.current import current_id
from indexer.generation.layout import GENERATIONS, REPOSITORIES
from indexer.generation.manifest import TOKENS, Manifest, read_manifest
from indexer.generation.previous import PreviousGeneration
from indexer.pipeline.context import BuildContext
from indexer.pipeline.draft import Draft, drafting
from indexer.pipeline.progress import READING, Progress
from indexer.pipeline.report import BuildReport
from indexer.publish.source_settings import without
from indexer.read.ocr.installation import NO_OCR
from indexer.sources.addresses import full_name
from indexer.sources.git_mirror import Mirrors
from indexer.sources.pushed_store import SOURCE, PushedStore


def remove_sources(
    sources: Sequence[str], index_dir: Path, *, keep_generations: int, progress: Progress
) -> BuildReport:
    """Publish the live generation without the documents of these sources. Nothing is fetched or embedded.

    A page that another source leads to as well goes too, and comes back with the next build.

    Args:
        sources: as they were given when they were indexed.
        index_dir: folder of the index.
        keep_generations: how many to keep, the new one included.
        progress: told how far it is; closed at the end.

    Raises:
        SourceError: one of them is not a source of the index; the message lists those that are.
        NothingToIndex: no document would be left.
        IndexMissing, IndexCorrupt: there is no live generation, or it cannot be read.
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written or is full.
    """
    removed = {full_name(source) for source in sources}
    current_id(index_dir)  # where there is no index, no folder is made
    pushed = PushedStore(index_dir)
    last = pushed.last()
    with (
        drafting(index_dir, keep_generations, progress) as folder,
        closing(PreviousGeneration.open(index_dir)) as earlier,
    ):
        manifest = read_manifest(index_dir / GENERATIONS / current_id(index_dir))
        known = manifest.sources
        unknown = sorted(removed.difference(known))
        if unknown or not removed:
            what = f"{unknown[0]} is not a source of this index" if unknown else "no source was given"
            raise SourceError(f"{what}; its sources are: {', '.join(known)}")
        config = BuildConfig(
            keep_generations=keep_generations,
            vector_index=manifest.settings["vector_index"],
            tokens=TOKENS in manifest.files,
        )
        context = BuildContext(config, earlier, None, progress, NO_OCR)
        with closing(Draft(folder, manifest.counts.dimension, context)) as draft:
            report = _publish_without(removed, manifest, context, draft, index_dir)
            Mirrors(index_dir / REPOSITORIES).keep(source for source in known if source not in removed)
        if SOURCE in removed:
            pushed.clear(last)
        return report


def _publish_without(
    removed: set[str], manifest: Manifest, context: BuildContext, draft: Draft, index_dir: Path
) -> BuildReport:
    progress, ledger = context.progress, context.ledger
    progress.phase(READING)
    progress.found(manifest.counts.documents)
    for number, url, source in context.earlier.documents():
        if source in removed:
            ledger.gone.add(url)
        else:
            draft.carry(number, source)
            ledger.unchanged += 1
        progress.page()
    if not draft.counts.documents:
        raise NothingToIndex("without these sources the index would be empty; the live index has not changed")
    for record in context.earlier.pages():
        if record.source not in removed:
            draft.remember(record)
    draft.finish()
    return draft.publish(
        index_dir,
        fingerprint=manifest.fingerprint,
        settings=without(manifest.settings, removed),
        sources=[source for source in manifest.sources if source not in removed],
    )

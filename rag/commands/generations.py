"""The verbs `verify`, `rollback`, `export`, `import` and `collections`, which manage builds of the index."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from embedder.errors import PilotlightError
from indexer.generation.manifest import DEFAULT, GENERATIONS, Manifest, collection_dir, current_id, read_manifest
from indexer.publish.archive import export_archive, export_documents, import_archive
from indexer.publish.publish import disk_errors, drop_collection, list_collections, problems_of, size_of
from rag.commands import models
from rag.commands.cli import PATH, Result, verb
from rag.commands.models import published_folder
from rag.errors import CollectionMissing, FingerprintMismatch, SettingsError
from rag.settings import Settings
from rag.stores import check_fingerprint, chosen_store, facts_of, live_id, roll_back, verify_generation

_NUMBER_COLUMNS = {"documents", "chunks", "MB"}


@verb("index", "store")
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
def verify(settings: Settings, *, generation: str | None = None) -> Result:
    """Check the manifest, files and counts of an index generation."""
    with closing(models.published_store(settings)) as store:
        generation = store.live_id() if generation is None else generation
        checks = verify_generation(store, generation)
    ok = not problems_of(checks)
    report = {
        "ok": ok,
        "collection": settings.collection,
        "generation": generation,
        "checks": [{"name": check.name, "ok": check.ok, "what": check.detail} for check in checks],
    }
    width = max(len(check.name) for check in checks)
    lines = [f"{'ok' if check.ok else 'FAILED':<6}  {check.name:<{width}}  {check.detail}" for check in checks]
    return report, "\n".join([*lines, f"generation {generation} is {'intact' if ok else 'damaged'}"])


@verb("index", "store")
@click.argument("generation", required=False, help="id of the generation to make live (default: the previous one)")
@click.option("--list", "only_list", is_flag=True, help="list the generations, and change nothing")
def rollback(settings: Settings, generation: str | None, *, only_list: bool = False) -> Result:
    """Verify an older index generation and make it live, and list all generations."""
    lines = []
    with closing(chosen_store(settings)) as store:
        report: dict[str, Any] = {"collection": settings.collection}
        if not only_list:
            before = live_id(store)
            report |= {"generation": roll_back(store, generation), "before": before}
            lines.append(f"generation {report['generation']} is live; previously {before or 'none'}")
        listed = [one._asdict() for one in store.published()]
        if not listed:
            _ = store.live_id() if settings.store else published_folder(settings)  # raises IndexMissing
    rows = [("", "generation", "created", "documents", "chunks", "MB", "")]
    for one in listed:
        size = "-" if one["bytes"] is None else f"{one['bytes'] / 1e6:,.1f}"
        rows.append(("*" if one["live"] else "", one["id"], *_facts(one), size, one["problem"]))
    return report | {"generations": listed}, "\n".join([*lines, _table(rows)])


@verb("index")
@click.argument("file", type=PATH, help="the archive, a tar file; an existing file is replaced")
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
@click.option("--jsonl", is_flag=True, help="write the documents as JSON Lines instead")
def export(settings: Settings, *, file: Path, generation: str | None, jsonl: bool) -> Result:
    """Write an index generation into an archive, or its documents into a file of JSON Lines."""
    if not jsonl and file.suffix.lower() in {".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z"}:
        raise SettingsError(f"cannot export to {file}: archives are plain tar files; use a name that ends in .tar")
    manifest = (export_documents if jsonl else export_archive)(published_folder(settings), file, generation)
    size = file.stat().st_size
    report = {"file": str(file), "file_bytes": size, **_summary(manifest)}
    content = "the documents of generation" if jsonl else "generation"
    return report, f"wrote {content} {manifest.id} to {file}, {size / 1e6:,.1f} MB"


@verb("index", "keep_generations", "embedder", without=("threads", "query_precision"))
@click.argument("file", type=PATH, help="an archive written by export")
def import_(settings: Settings, *, file: Path) -> Result:
    """Publish the index generation in an archive, and warn if it was built with other model settings."""
    from embedder.engines.plan import Plan

    manifest = import_archive(
        settings.index_dir, file, collection=settings.collection, keep_generations=settings.keep_generations
    )
    warnings = []
    try:
        check_fingerprint(manifest, Plan(models.with_index_precision(settings).embedder_config()).fingerprint)
    except FingerprintMismatch as error:
        warnings.append(f"serve will refuse it with these settings: {error}")
    except PilotlightError as error:
        warnings.append(f"cannot tell whether these settings can serve it: {error}")
    report = {
        "file": str(file),
        "collection": settings.collection,
        **facts_of(manifest),
        "bytes": size_of(manifest),
        "warnings": warnings,
    }
    lines = [f"generation {manifest.id} of collection {settings.collection} is live"]
    return report, "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)])


@verb("index", without=("collection",))
@click.option("--drop", metavar="NAME", help="delete this collection with all its generations")
@click.option("--yes", is_flag=True, help="confirm the deletion")
def collections(settings: Settings, *, drop: str | None, yes: bool) -> Result:
    """List the collections of the index, or delete one."""
    folders = list_collections(settings.index_dir)
    if drop is not None:
        if not collection_dir(settings.index_dir, drop).is_dir():
            raise CollectionMissing(drop, folders)
        if not yes and drop != DEFAULT:
            raise SettingsError(f"--drop deletes collection {drop!r} with all its generations; confirm with --yes")
        with disk_errors(settings.index_dir):
            drop_collection(settings.index_dir, drop)
        return {"dropped": drop}, f"deleted collection {drop}"
    if not folders:
        current_id(settings.index_dir)  # raises IndexMissing
    listed: list[dict[str, Any]] = []
    for name, folder in folders.items():
        item: dict[str, Any] = dict.fromkeys(("generation", "created_at", "documents", "chunks", "bytes"))
        item = {"name": name, **item, "problem": ""}
        try:
            item |= _summary(read_manifest(folder / GENERATIONS / current_id(folder)))
        except PilotlightError as error:
            item["problem"] = str(error)
        listed.append(item)
    rows = [("collection", "generation", "created", "documents", "chunks", "")]
    rows += [(one["name"], one["generation"] or "-", *_facts(one), one["problem"]) for one in listed]
    return {"collections": listed}, _table(rows)


def _summary(manifest: Manifest) -> dict[str, Any]:
    return facts_of(manifest) | {"bytes": size_of(manifest)}


def _facts(item: dict[str, Any]) -> tuple[str, ...]:
    counts = ("-" if item[name] is None else f"{item[name]:,}" for name in ("documents", "chunks"))
    return item["created_at"] or "-", *counts


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Format rows as aligned columns. The first row has the column headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, rows[0], strict=True)
        lines.append(
            "  ".join(c.rjust(width) if head in _NUMBER_COLUMNS else c.ljust(width) for c, width, head in cells)
        )
    return "\n".join(line.rstrip() for line in lines)

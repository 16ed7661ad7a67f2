"""What the verbs of the command line that look after an index do.

Each returns a JSON-ready object and the text for a terminal; `cli` prints one of them.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from embedder.plan import Plan
from indexer.archive import export_archive, export_documents, import_archive
from indexer.collections import drop_collection, list_collections, size_of
from indexer.errors import IndexMissing
from indexer.generation import current_id
from indexer.kept import leave_lost
from indexer.layout import DEFAULT, GENERATIONS, collection_dir
from indexer.manifest import Manifest, differing_fields, read_manifest
from indexer.publish import disk_errors
from indexer.remote import Place
from indexer.upload import upload
from indexer.verification import problems_of
from indexer.wording import counted
from rag.commands import Result, lazy_embedder, published
from rag.configs import embedder_config
from rag.copying import copy as copy_generation
from rag.elapsed import Elapsed
from rag.errors import CollectionMissing, SettingsError
from rag.settings import Settings
from rag.sources import read_sources
from rag.stores import chosen_store, live_id, roll_back, store_at, verify_generation

# Endings of archives that export does not write; any other name is the user's choice.
_OTHER_ARCHIVES = {".zip", ".7z", ".rar", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".tzst", ".lz4", ".jar"}


def verify(settings: Settings, *, generation: str | None = None, quick: bool = False) -> Result:
    """Check every file and count of a generation and, unless it is to be quick, a sample of its vectors."""
    start = time.monotonic()
    if not settings.store:
        published(settings)  # says that there is no such collection
    with closing(chosen_store(settings)) as store:
        generation = store.live_id() if generation is None else generation
        checks = verify_generation(store, generation, None if quick else lazy_embedder(settings))
    ok = not problems_of(checks)
    report = {
        "ok": ok,
        "collection": settings.collection,
        "generation": generation,
        "checks": [{"name": check.name, "ok": check.ok, "what": check.what} for check in checks],
        "seconds": round(time.monotonic() - start, 3),
    }
    width = max(len(check.name) for check in checks)
    lines = [f"{'ok' if check.ok else 'FAILED':<6}  {check.name:<{width}}  {check.what}" for check in checks]
    return report, "\n".join([*lines, f"generation {generation} is {'intact' if ok else 'damaged'}"])


def rollback(settings: Settings, generation: str | None) -> Result:
    """Make an older generation the live one."""
    with closing(chosen_store(settings)) as store:
        before = live_id(store)
        now = roll_back(store, generation)
    report = {"collection": settings.collection, "generation": now, "before": before}
    return report, f"generation {now} is live; previously {before or 'none'}"


def generations(settings: Settings) -> Result:
    """List the generations of the collection."""
    with closing(chosen_store(settings)) as store:
        listed = [generation.as_dict() for generation in store.published()]
        if not listed:
            _ = store.live_id() if settings.store else published(settings)  # says that there is none
    rows = [("", "generation", "created", "documents", "chunks", "MB", "")]
    rows += [
        (
            "*" if item["live"] else "",
            item["id"],
            item["created_at"] or "-",
            _number(item["documents"]),
            _number(item["chunks"]),
            "-" if item["bytes"] is None else f"{item['bytes'] / 1e6:,.1f}",
            item["problem"],
        )
        for item in listed
    ]
    return {"collection": settings.collection, "generations": listed}, _table(rows)


def copy(settings: Settings, source: str, target: str, *, generation: str | None = None, quiet: bool = False) -> Result:
    """Copy a generation from store to store, and make it live there once it has been compared."""
    with (
        closing(store_at(source)) as ours,
        closing(store_at(target)) as theirs,
        Elapsed(sys.stderr, f"copying to {theirs.name}", quiet=quiet) as elapsed,
    ):
        report = copy_generation(ours, theirs, generation, keep=settings.keep_generations, step=elapsed.step)
    return report.as_dict(), report.table()


def sources(settings: Settings) -> Result:
    """List what the live generation was made from."""
    generation, listed = read_sources(published(settings))
    rows = [("source", "kind", "documents", "chunks", "fetched", "modified", "settings")]
    rows += [
        (
            item.source,
            item.kind,
            _number(item.documents),
            _number(item.chunks),
            item.fetched_at or "-",
            item.modified or "-",
            " ".join(f"--{name.replace('_', '-')} {value or repr('')}" for name, value in item.own.items()),
        )
        for item in listed
    ]
    report = {
        "collection": settings.collection,
        "generation": generation,
        "sources": [item.as_dict() for item in listed],
    }
    return report, _table(rows)


def export(settings: Settings, file: Path, *, generation: str | None = None, jsonl: bool = False) -> Result:
    """Write a generation into an archive, or its documents into a file of JSON Lines."""
    if not jsonl and file.suffix.lower() in _OTHER_ARCHIVES:
        raise SettingsError(f"cannot export to {file}: use a name that ends in .tar, .tar.gz or .tgz")
    index = published(settings)
    manifest = (export_documents if jsonl else export_archive)(index, file, generation)
    size = file.stat().st_size
    report = {"file": str(file), "file_bytes": size, **_described(manifest)}
    what = counted(manifest.counts.documents, "document") if jsonl else f"generation {manifest.id}"
    return report, f"wrote {what} to {file}, {size / 1e6:,.1f} MB"


def import_(settings: Settings, file: Path) -> Result:
    """Publish the generation that an archive holds; say so if these settings cannot serve it."""
    manifest = import_archive(
        settings.index_dir, file, collection=settings.collection, keep_generations=settings.keep_generations
    )
    warnings = []
    try:
        if fields := differing_fields(manifest.fingerprint, Plan(embedder_config(settings)).fingerprint):
            names = ", ".join(fields)
            warnings.append(
                f"serve will refuse it with these settings: it was built with a different embedder ({names})"
            )
    except PilotlightError as error:
        warnings.append(f"cannot tell whether these settings can serve it: {error}")
    report = {"file": str(file), "collection": settings.collection, **_described(manifest), "warnings": warnings}
    warnings += leave_lost(manifest, None, "imported")
    lines = [f"generation {manifest.id} of collection {settings.collection} is live"]
    return report, "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)])


def push(settings: Settings, url: str, generation: str | None) -> Result:
    """Publish a generation of the collection at an address."""
    start = time.monotonic()
    folder = published(settings)
    done = upload(
        folder,
        Place(url).collection(settings.collection),
        keep=settings.keep_generations,
        generation_id=generation,
    )
    report = {
        "url": url,
        "collection": settings.collection,
        **_described(done.manifest),
        "sent_bytes": done.sent,
        "removed": done.removed,
        "seconds": round(time.monotonic() - start, 3),
    }
    whole = size_of(done.manifest)
    text = f"generation {done.manifest.id} is live at {url}: {done.sent / 1e6:,.1f} of {whole / 1e6:,.1f} MB sent"
    return report, text + (f", removed {', '.join(done.removed)}" if done.removed else "")


def collections(settings: Settings) -> Result:
    """List the collections of the index."""
    folders = list_collections(settings.index_dir)
    if not folders:
        current_id(settings.index_dir)  # says that there is no index, and how to make one
    listed: list[dict[str, Any]] = []
    for name, folder in folders.items():
        item: dict[str, Any] = dict.fromkeys(("generation", "created_at", "documents", "chunks", "bytes"))
        item = {"name": name, **item, "problem": ""}
        try:
            item |= _described(read_manifest(folder / GENERATIONS / current_id(folder)))
        except PilotlightError as error:
            item["problem"] = str(error)
        listed.append(item)
    rows = [("collection", "generation", "created", "documents", "chunks", "")]
    rows += [
        (
            item["name"],
            item["generation"] or "-",
            item["created_at"] or "-",
            _number(item["documents"]),
            _number(item["chunks"]),
            item["problem"],
        )
        for item in listed
    ]
    return {"collections": listed}, _table(rows)


def drop(settings: Settings, name: str, *, yes: bool) -> Result:
    """Remove a named collection."""
    folders = list_collections(settings.index_dir)
    if not collection_dir(settings.index_dir, name).is_dir():
        raise CollectionMissing(name, folders)
    if not yes and name != DEFAULT:
        raise SettingsError(f"drop deletes collection {name!r} and all its generations permanently; confirm with --yes")
    try:
        with disk_errors(settings.index_dir):
            drop_collection(settings.index_dir, name)
    except IndexMissing as error:
        raise CollectionMissing(name, folders) from error
    return {"dropped": name}, f"deleted collection {name}"


def _described(manifest: Manifest) -> dict[str, Any]:
    counts = manifest.counts
    return {
        "generation": manifest.id,
        "created_at": manifest.created_at,
        "documents": counts.documents,
        "chunks": counts.chunks,
        "bytes": size_of(manifest),
    }


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Lay rows out in columns; numbers, which are all below a heading of a count, stand to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {"documents", "chunks", "MB"}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0], strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def keys(settings: Settings, action: str, name: str | None, *, role: str, from_stdin: bool) -> Result:
    """Make, list or remove keys of the server."""
    from rag.errors import KeysError
    from rag.keys import KeyFile

    file = KeyFile(settings.keys_file)
    if action == "list":
        found = [{"name": key.name, "role": key.role, "created": key.created} for key in file.read()]
        lines = [f"{key['name']:<24}  {key['role']:<5}  {key['created']}" for key in found]
        return {"keys": found}, "\n".join(lines) or "there are no keys"
    if name is None:
        raise KeysError(f"keys {action} needs the NAME of a key")
    if action == "remove":
        key = file.remove(name)
        return {"name": key.name, "role": key.role, "created": key.created}, f"removed key {key.name}"
    given = sys.stdin.readline().rstrip("\r\n") if from_stdin else None
    shown = file.add(name, role, given)
    made = next(key for key in file.read() if key.name == name)
    text = f"{shown}\nkey {name} ({role}) is in {file.path}; it will not be shown again"
    return {"name": name, "role": role, "created": made.created, "key": shown}, text

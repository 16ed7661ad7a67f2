"""Places that a source may not leave: what an operator lets others have read is the scope of all that is fetched."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from indexer.config import BuildConfig
from indexer.generation.manifest import Manifest
from indexer.urls import has_user, normalise


def places(text: str) -> tuple[str, ...]:
    """Return the addresses and folders of a comma-separated list."""
    return tuple(place for word in text.split(",") if (place := word.strip()))


def is_below(source: str, allowed: Sequence[str]) -> bool:
    """Return whether an address or path is one of some addresses and folders, or lies below one."""
    if "://" not in source:
        return folder_above(Path(source).resolve(), allowed) is not None  # resolved, as a link or .. may lead out
    return any("://" in place and _is_below(source, place) for place in allowed)


def folder_above(path: Path, allowed: Sequence[str]) -> Path | None:
    """Return the allowed folder, or file, that a resolved path is or lies below; None if there is none."""
    folders = (Path(place).expanduser().resolve() for place in allowed if "://" not in place)
    return next((folder for folder in folders if path.is_relative_to(folder)), None)


def bounded(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> BuildConfig:
    """Return the config with the places that each source was held to before: they hold for as long as it is there."""
    before = live.settings.get("crawl", {}).get("within", {}) if live is not None else {}
    kept = {source: tuple(places) for source, places in before.items() if source in sources}
    return replace(config, crawl=replace(config.crawl, within=kept | dict(config.crawl.within)))


def refusal(url: str, allowed: Sequence[str]) -> str | None:
    """Say why an address of a source that is held to some places is left out, or None if it is not."""
    return None if not allowed or is_below(url, allowed) else "outside what this source may read"


def _is_below(source: str, place: str) -> bool:
    inner, outer = normalise("", source), normalise("", place)
    if inner is None or outer is None or has_user(source):
        return False
    one, other = urlsplit(inner), urlsplit(outer)
    within = one.path == other.path or one.path.startswith(other.path.rstrip("/") + "/")
    return (one.scheme, one.netloc) == (other.scheme, other.netloc) and within and not _climbs(one.path)


def _climbs(path: str) -> bool:
    """Whether a server that undoes escapes once more, or reads a path in its own way, could find steps upwards."""
    while (plain := unquote(path)) != path:
        path = plain
    return any(step.partition(";")[0] == ".." for step in path.replace("\\", "/").split("/"))

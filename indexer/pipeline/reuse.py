"""Decides how much of the live generation a build can take over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indexer.config import BuildConfig
from indexer.generation.manifest import TOKENS, Manifest
from indexer.publish.source_settings import are_kept

_SHOWN = 12  # characters of a value that differs: of a digest, more say no more


@dataclass(frozen=True, slots=True)
class Reuse:
    """How much a build can take over; nothing where there is no live generation."""

    passages: bool = False  # of a page that is the same: it would be cut into the same ones again
    vectors: bool = False  # of passages that are the same: of the same model, and with tokens if those are wanted
    everything: bool = False  # should every page turn out to be the same, the live generation can stay as it is
    refusal: str = ""  # what differs, and what that costs, in one line


def reuse_of(
    live: Manifest | None,
    sources: Sequence[str],
    config: BuildConfig,
    settings: Mapping[str, Any],
    fingerprint: Mapping[str, Any],
) -> Reuse:
    """Compare the live generation with what a build would make: its sources, settings and model."""
    if live is None:
        return Reuse()
    models = _differences(live.fingerprint, fingerprint)
    cuts = _differences(_cutting(live.settings), _cutting(settings))
    if config.tokens and TOKENS not in live.files:
        models = ", ".join(filter(None, [models, "tokens no -> yes"]))
    passages = not (cuts or config.full)
    has_same = live.settings.get("vector_index") == config.vector_index and live.sources == sources
    has_same &= live.settings.get("credentials") == settings.get("credentials")
    has_same &= live.settings.get("crawl", {}).get("render", "off") == config.crawl.render
    has_same &= bool(config.tokens) == (TOKENS in live.files)
    return Reuse(
        passages=passages,
        vectors=not models,
        everything=passages and not models and has_same and are_kept(config, live),
        refusal=_refusal(models, cuts),
    )


def _refusal(models: str, cuts: str) -> str:
    if cuts:
        rest = "and embedding every page again" if models else "every page again, and embedding what differs"
        return f"{', '.join(filter(None, [models, cuts]))}: reading {rest}"
    return f"{models}: embedding every passage again; pages that have not changed are not read again" if models else ""


def _cutting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide what passages a page is cut into, by the names that users know."""
    chunk = settings.get("chunk", {})
    ocr = settings.get("ocr") or {}
    read = {"reading": settings.get("reading"), "metadata": settings.get("metadata", {})}
    read["ocr"] = "on" if ocr else "off"
    parts = (("chunk", chunk), ("ocr", ocr))
    return {f"{part}_{name}": value for part, given in parts for name, value in given.items()} | read


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return each difference as `name old -> new`; empty if there is none."""
    names = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {str(old.get(name))[:_SHOWN]} -> {str(new.get(name))[:_SHOWN]}" for name in names)

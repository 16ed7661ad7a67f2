"""The plan of a build: all that its stages need to know, and how much of the live generation it can take over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.generation.manifest import TOKENS, Manifest
from indexer.generation.previous import PreviousGeneration
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import Ledger
from indexer.pipeline.workers import Workers
from indexer.publish.source_settings import are_kept
from indexer.read.ocr.installation import NO_OCR, Ocr

_SHOWN = 12  # characters of a value that differs: of a digest, more say no more


@dataclass(frozen=True, slots=True)
class Reuse:
    """The parts of the live generation that a build can take over; none where there is no live generation."""

    passages: bool = False  # of an unchanged page: it would be cut into the same ones again
    vectors: bool = False  # of unchanged passages: they are of the same model, and have tokens if tokens are wanted
    everything: bool = False  # the live generation stays as it is if every page turns out to be unchanged
    refusal: str = ""  # one line that says what differs, and what that costs


@dataclass(frozen=True, slots=True)
class Plan:
    """One build: its sources and settings, the live generation, who works for it, and what it reports to."""

    config: BuildConfig
    earlier: PreviousGeneration  # the live generation
    progress: Progress
    sources: Sequence[str] = ()  # by their full names
    settings: Mapping[str, Any] = field(default_factory=dict)  # for the manifest
    reuse: Reuse = Reuse()
    embedder: Embedder | None = None  # None where nothing is embedded
    ocr: Ocr = NO_OCR
    cluster: Workers | None = None  # reads, cuts and embeds instead of this machine
    ledger: Ledger = field(default_factory=Ledger)


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
    """Return the settings that decide what passages a page is cut into, by the names that users know."""
    ocr = settings.get("ocr") or {}
    found = {f"chunk_{name}": value for name, value in settings.get("chunk", {}).items()}
    found |= {f"ocr_{name}": value for name, value in ocr.items()}
    reading = {"reading": settings.get("reading"), "metadata": settings.get("metadata", {})}
    return found | reading | {"ocr": "on" if ocr else "off"}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return each difference as `name old -> new`; empty if there is none."""
    names = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {str(old.get(name))[:_SHOWN]} -> {str(new.get(name))[:_SHOWN]}" for name in names)

"""The plan of a build: all that its stages need to know, and how much of the live generation it can take over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.generation.manifest import TOKENS, Manifest
from indexer.generation.previous import READER_VERSION, PreviousGeneration
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from indexer.pipeline.workers import Workers
from indexer.publish.source_settings import are_kept, credentialed, with_kept
from indexer.read.ocr.pages import NO_OCR, Ocr
from indexer.sources.addresses import full_name
from indexer.sources.pushed_store import SOURCE

_SHOWN = 12  # characters of a value that differs: of a digest, more say no more


@dataclass(frozen=True, slots=True)
class Reuse:
    """The parts of the live generation that a build can take over; none where there is no live generation."""

    vectors: bool = False  # of unchanged passages: they are of the same model, and have tokens if tokens are wanted
    passages: bool = False  # of an unchanged page: it would be cut into the same ones again, with the same vectors
    everything: bool = False  # the live generation stays as it is if every page turns out to be unchanged


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
    report: BuildReport = field(default_factory=BuildReport)


def complete(plan: Plan) -> Plan:
    """Return the plan with its settings, and say what of the live generation cannot be taken over, and why."""
    config, sources, live = plan.config, plan.sources, plan.earlier.manifest
    refresh = {SOURCE, *(sources if config.refresh is None else map(full_name, config.refresh))}
    metadata = {
        full_name(source): {name: list(values) for name, values in stated.items()}
        for source, stated in config.metadata.items()
    }
    tokens = config.tokens if config.tokens is not None else live is not None and TOKENS in live.files
    config = with_kept(replace(config, refresh=refresh, metadata=metadata, tokens=tokens), sources, live)
    settings: dict[str, Any] = config.as_dict() | {"ocr": None if plan.ocr.obstacle else config.ocr.as_dict()}
    settings |= {"reading": READER_VERSION}
    settings |= {"metadata": config.metadata} if config.metadata else {}
    settings |= {"model": dict(config.model)} if config.model else {}
    if private := credentialed(config, sources, live):
        settings["credentials"] = private
    plan = replace(plan, config=config, settings=settings)
    return plan if live is None else replace(plan, reuse=_reuse(plan, live))


def _reuse(plan: Plan, live: Manifest) -> Reuse:
    """Compare the live generation with what a build would make, and say what differs, and what that costs."""
    config, settings = plan.config, plan.settings
    models = _differences(live.fingerprint, plan.embedder.fingerprint if plan.embedder else {})
    cuts = _differences(_cutting(live.settings), _cutting(settings))
    if config.tokens and TOKENS not in live.files:
        models.append("tokens no -> yes")
    if models or cuts:
        rest = "and embedding every page again" if models else "every page again, and embedding what differs"
        plan.progress.message(f"{', '.join(models + cuts)}: reading {rest}")
    passages = not (models or cuts or config.full)
    has_same = live.sources == plan.sources
    has_same &= live.settings.get("credentials") == settings.get("credentials")
    has_same &= live.settings.get("crawl", {}).get("render", "off") == config.crawl.render
    has_same &= bool(config.tokens) == (TOKENS in live.files) and are_kept(config, live)
    return Reuse(not models, passages, passages and has_same)


def _cutting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide what passages a page is cut into, by the names that users know."""
    ocr = settings.get("ocr") or {}
    found = {"chunk_tokens": settings.get("chunk", {}).get("tokens")}
    found |= {f"ocr_{name}": value for name, value in ocr.items()}
    reading = {"reading": settings.get("reading"), "metadata": settings.get("metadata", {})}
    return found | reading | {"ocr": "on" if ocr else "off"}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return each difference as `name old -> new`."""
    names = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
    return [f"{name} {str(old.get(name))[:_SHOWN]} -> {str(new.get(name))[:_SHOWN]}" for name in names]

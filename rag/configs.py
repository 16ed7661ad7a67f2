"""Settings turned into the small frozen objects that the lower packages take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from embedder.config import EmbedderConfig
from indexer.config import BuildConfig, ChunkConfig, CrawlLimits
from indexer.scope import Scope, patterns
from rag.settings import WORDS, Settings


def embedder_config(settings: Settings) -> EmbedderConfig:
    """Return what the embedder needs."""
    return EmbedderConfig(
        model=settings.model,
        revision=settings.revision,
        engine=settings.engine,
        precision=settings.precision,
        threads=settings.threads,
        cache_dir=settings.cache,
    )


def build_config(settings: Settings, within: Mapping[str, Sequence[str]] | None = None) -> BuildConfig:
    """Return what a build needs; `within` is as in `CrawlLimits`."""
    return BuildConfig(
        crawl=CrawlLimits(
            max_pages=settings.max_pages,
            max_depth=settings.max_depth,
            timeout=settings.timeout,
            max_bytes=settings.max_bytes,
            max_total_bytes=settings.max_total_bytes,
            scope=Scope(patterns(settings.include), patterns(settings.exclude)),
            concurrency=settings.concurrency,
            sites=settings.sites,
            delay=settings.delay,
            allow_private=_networks(settings.allow_private),
            within={source: tuple(places) for source, places in (within or {}).items()},
        ),
        chunk=ChunkConfig(tokens=settings.chunk_tokens, overlap=settings.chunk_overlap),
        keep_generations=settings.keep_generations,
        vector_index=settings.vector_index,
    )


def own_limits(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of settings by name as a source can have them of its own, see `CrawlLimits.own`."""
    read: dict[str, Callable[[str], Any]] = {"include": patterns, "exclude": patterns, "allow_private": _networks}
    return {name: read[name](value) if name in read else value for name, value in values.items()}


def _networks(text: str) -> bool | tuple[str, ...]:
    """What `allow_private` says: yes, no, or a comma-separated list of networks."""
    known = WORDS.get(text.strip().lower())
    return patterns(text) if known is None else known

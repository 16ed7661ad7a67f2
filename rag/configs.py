"""Settings turned into the small frozen objects that the lower packages take."""

from embedder.config import EmbedderConfig
from indexer.config import BuildConfig, ChunkConfig, CrawlLimits
from rag.settings import Settings


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


def build_config(settings: Settings) -> BuildConfig:
    """Return what a build needs."""
    return BuildConfig(
        crawl=CrawlLimits(
            max_pages=settings.max_pages,
            max_depth=settings.max_depth,
            timeout=settings.timeout,
            max_bytes=settings.max_bytes,
            concurrency=settings.concurrency,
            delay=settings.delay,
            allow_private=settings.allow_private,
        ),
        chunk=ChunkConfig(tokens=settings.chunk_tokens, overlap=settings.chunk_overlap),
        keep_generations=settings.keep_generations,
        vector_index=settings.vector_index,
    )

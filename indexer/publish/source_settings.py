"""The limits of each source. An index stores them for later builds that set no new limits."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from indexer.config import SOURCE_SETTINGS, BuildConfig, ChunkConfig, CrawlLimits, OcrConfig, settings_of
from indexer.errors import CredentialsError
from indexer.generation.manifest import Manifest
from indexer.network.credentials import credential_for

Limits = Mapping[str, Mapping[str, Any]]


def inherit_limits(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> BuildConfig:
    """Add the limits of sources in the live index to a config. Limits in the config override them; None removes one.

    Raises:
        ConfigError: the index has a limit that is not valid.
    """
    stored = limits_of(live.settings if live is not None else {})
    limits: dict[str, dict[str, Any]] = {}
    for source in sources:
        merged = {**stored.get(source, {}), **config.crawl.own.get(source, {})}
        if valid := {name: merged[name] for name in settings_of(source) if merged.get(name) is not None}:
            limits[source] = valid
    return replace(config, crawl=replace(config.crawl, own=limits))


def has_same_limits(config: BuildConfig, live: Manifest) -> bool:
    """Return whether the limits of all sources are the same as in the live index."""
    return bool(json.loads(json.dumps(config.crawl.own, default=dict)) == limits_of(live.settings))


def limits_differ(config: BuildConfig, live: Manifest, source: str) -> bool:
    """Return whether a source has other limits than in the live index."""
    before, now = config_of(live).crawl.of(source), config.crawl.of(source)
    return before != replace(now, user_agent=before.user_agent)


def credentialed_sources(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> list[str]:
    """Return the names of the sources that are read with credentials.

    Raises:
        CredentialsError: a source was read with credentials before, and has none now. The build would index login pages
            and remove the others. A credential with only an origin permits this.
    """
    before = set(live.settings.get("credentials", ())) if live is not None else set()
    credentials = {source: credential_for(source, config.credentials) for source in sources}
    for source, credential in credentials.items():
        if source in before and credential is None and (config.refresh is None or source in config.refresh):
            raise CredentialsError(
                f"{source} was read with credentials before, and none are given: name the configuration file that has "
                "them with --config, or in PILOTLIGHT_RULES"
            )
    return [source for source, each in credentials.items() if (each.kinds() if each else source in before)]


def config_of(manifest: Manifest) -> BuildConfig:
    """Return the config of the build that made a generation. A build with this config keeps every setting.

    Raises:
        ConfigError: the index has a setting that is not valid.
    """
    settings = manifest.settings
    limits = {  # later versions may have other settings
        source: {name: value for name, value in limits.items() if name in SOURCE_SETTINGS}
        for source, limits in limits_of(settings).items()
    }
    return BuildConfig(
        crawl=msgspec.convert({**settings.get("crawl", {}), "own": limits}, CrawlLimits),
        chunk=msgspec.convert(settings.get("chunk", {}), ChunkConfig),
        ocr=OcrConfig.from_dict(settings.get("ocr")),
        metadata=settings.get("metadata", {}),
        model=settings.get("model", {}),
    )


def without_private_access(manifest: Manifest) -> Manifest:
    """Return a manifest from another machine without its permissions to reach private addresses."""
    stored = limits_of(manifest.settings)
    limits = {source: {k: v for k, v in each.items() if k != "allow_private"} for source, each in stored.items()}
    return manifest if limits == stored else replace(manifest, settings=_with_limits(manifest.settings, limits))


def without_sources(settings: Mapping[str, Any], sources: Collection[str]) -> dict[str, Any]:
    """Return the settings of a build without those of some sources."""
    limits = {source: each for source, each in limits_of(settings).items() if source not in sources}
    templates = {source: each for source, each in settings.get("templates", {}).items() if source not in sources}
    return _with_limits(settings, limits) | {"templates": templates}


def limits_of(settings: Mapping[str, Any]) -> Limits:
    """Return the limits of sources in the settings of a manifest."""
    return settings.get("crawl", {}).get("own", {})  # type: ignore[no-any-return]  # JSON of a manifest


def _with_limits(settings: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    return {**settings, "crawl": {**settings.get("crawl", {}), "own": limits}}

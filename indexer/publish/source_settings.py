"""Crawl settings of a source's own: kept with it in the index, and used by every later build until others are given."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from indexer.config import OWN, BuildConfig, ChunkConfig, CrawlLimits, OcrConfig, own_names
from indexer.errors import ConfigError, CredentialsError
from indexer.generation.manifest import Manifest
from indexer.network.credentials import credential_for


def with_kept(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> BuildConfig:
    """Return the config with the settings that sources keep from before; those given now come first, None drops one.

    Raises ConfigError if what was kept makes no sense.
    """
    if live is not None:
        _refuse_places(live, sources)
    before, own = _own(live.settings if live is not None else {}), {}
    for source in sources:
        given = {**before.get(source, {}), **config.crawl.own.get(source, {})}
        if used := {name: given[name] for name in own_names(source) if given.get(name) is not None}:
            own[source] = used
    return replace(config, crawl=replace(config.crawl, own=own))


def _refuse_places(live: Manifest, sources: Collection[str]) -> None:
    """Raise ConfigError for a source that an older version held to some places, which nothing does any more."""
    for source in live.settings.get("crawl", {}).get("within", {}):
        if source in live.sources and source in sources:
            raise ConfigError(
                f"{source} was held to the places of job_sources, which was removed: remove it, and index it again"
            )


def credentialed(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> list[str]:
    """Return the sources that are read with credentials, to be kept with the index: their names, and nothing more.

    Raises CredentialsError for one that was before, and is now to be read as by anyone: pages would be taken for gone,
    and login pages indexed. A credential with nothing but its origin says that this is meant.
    """
    before = set(live.settings.get("credentials", ())) if live is not None else set()
    found = []
    for source in sources:
        given = credential_for(source, config.credentials)
        if source in before and given is None and (config.refresh is None or source in config.refresh):
            raise CredentialsError(
                f"{source} was read with credentials before, and none are given: name the configuration file that has "
                "them with --config, or in PILOTLIGHT_RULES"
            )
        if given.kinds() if given else source in before:
            found.append(source)
    return found


def config_of(manifest: Manifest) -> BuildConfig:
    """Return the config that a generation was built with, which another build with it leaves as it is.

    Raises ConfigError if what was kept makes no sense.
    """
    settings = manifest.settings
    _refuse_places(manifest, manifest.sources)
    crawl = dict(settings.get("crawl", {}))
    crawl["own"] = {  # older versions had more
        source: {name: value for name, value in limits.items() if name in OWN}
        for source, limits in crawl.get("own", {}).items()
    }
    return BuildConfig(
        crawl=msgspec.convert(crawl, CrawlLimits),
        chunk=msgspec.convert(settings.get("chunk", {}), ChunkConfig),  # older versions had more
        ocr=OcrConfig.from_dict(settings.get("ocr")),
        metadata=settings.get("metadata", {}),
        model=settings.get("model", {}),
    )


def are_kept(config: BuildConfig, live: Manifest) -> bool:
    """Return whether the live generation has the sources' own settings as they are now."""
    return bool(json.loads(json.dumps(config.crawl.own, default=dict)) == _own(live.settings))


def limits_differ(config: BuildConfig, live: Manifest, source: str) -> bool:
    """Return whether a source is read within other limits than in the live generation, as somebody has decided."""
    before, now = config_of(live).crawl.of(source), config.crawl.of(source)
    return before != replace(now, user_agent=before.user_agent)


def own_of(manifest: Manifest, source: str) -> dict[str, str]:
    """Return a source's own settings as they are given on the command line."""

    def as_text(value: object) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    return {name: as_text(value) for name, value in _own(manifest.settings).get(source, {}).items()}


def without_leave(manifest: Manifest) -> Manifest:
    """Return a manifest from elsewhere without leave to reach private addresses: only this machine gives that."""
    before = _own(manifest.settings)
    own = {source: {k: v for k, v in given.items() if k != "allow_private"} for source, given in before.items()}
    return manifest if own == before else replace(manifest, settings=_with_own(manifest.settings, own))


def without(settings: Mapping[str, Any], sources: Collection[str]) -> dict[str, Any]:
    """Return the settings of a build without what some sources keep."""
    own = {source: given for source, given in _own(settings).items() if source not in sources}
    learnt = {source: template for source, template in settings.get("templates", {}).items() if source not in sources}
    return _with_own(settings, own) | {"templates": learnt}


def _own(settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return each source's own settings from those of a build."""
    return settings.get("crawl", {}).get("own", {})  # type: ignore[no-any-return]  # JSON of a manifest


def _with_own(settings: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {**settings, "crawl": {**settings.get("crawl", {}), "own": own}}

"""Define the options of a build and the limits of each source. `rag.settings` validates the numbers that users set.

The index stores the options and limits. The next build of the same index inherits the limits.
"""

import ipaddress
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta

from indexer.errors import ConfigError, CredentialsError
from indexer.generation.manifest import Manifest
from indexer.network.credentials import Credential, credential_for
from indexer.network.http import ENVIRONMENT
from indexer.network.urls import address_kind, has_user, normalise

CHUNK_TOKENS = 200
OCR_MODES = ("auto", "on", "off")
MIN_OCR_CONFIDENCE = 60  # percent
MAX_OCR_PAGES = 1_000
RENDER = ("off", "on", "auto")
_ALL_KINDS, _REMOTE_KINDS = ("site", "repository", "bucket", "path"), ("site", "repository", "bucket")
_KINDS_BY_SETTING = {
    "max_pages": ("site",),
    "max_depth": ("site",),
    "timeout": _REMOTE_KINDS,
    "max_bytes": _ALL_KINDS,
    "include": _REMOTE_KINDS,
    "exclude": _REMOTE_KINDS,
    "delay": ("site",),
    "allow_private": ("site", "repository"),
    "render": ("site",),
    "link_template": ("repository", "bucket"),
}
SOURCE_SETTINGS = tuple(_KINDS_BY_SETTING)
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z_]{1,30}")


def settings_of(source: str) -> list[str]:
    """Return the names of the settings that apply to the kind of a source, such as a site or a bucket."""
    kind = address_kind(source) or ("site" if "://" in source else "path")
    return [name for name, kinds in _KINDS_BY_SETTING.items() if kind in kinds]


def package_version() -> str:
    """Return the version of this package, or 0 if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version("pilotlight")
    except metadata.PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """Patterns for the paths of pages to crawl. An empty `include` means all pages. `exclude` overrides `include`.

    A pattern matches the beginning of a path, or the whole path if it ends with `$`. `*` matches any characters.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in self.include + self.exclude:
            if not pattern.startswith(("/", "*")):
                raise ConfigError(
                    f"include and exclude must be patterns that begin with / or *, such as *.html$, not {pattern!r}"
                )

    def refusal(self, url: str) -> str | None:
        """Return the reason to exclude an address, such as `excluded by /private`, or None."""
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        is_wanted = not self.include or any(matches(pattern, path) for pattern in self.include)
        by = next((pattern for pattern in self.exclude if matches(pattern, path)), "" if is_wanted else "--include")
        return f"excluded by {by}" if by else None


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """Limits for reading one source. Times are in seconds. Sizes are in bytes after decompression.

    `max_depth` counts links from the start page. `timeout` limits one page including its redirects. `max_bytes` limits
    one page or local file. A longer delay in robots.txt overrides `delay`. `allow_private` permits all private
    addresses, or only addresses in the listed networks. If `http_proxy` is `http.ENVIRONMENT`, environment variables
    name the proxy. `own` maps the names of sources to settings that override these limits.
    """

    max_pages: Annotated[int, Meta(ge=1)] = 10_000
    max_depth: Annotated[int, Meta(ge=0)] = 32
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 20.0
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000
    max_total_bytes: int = 100_000_000_000
    scope: CrawlScope = field(default_factory=CrawlScope)
    concurrency: int = 4
    delay: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    allow_private: bool | tuple[str, ...] = False
    http_proxy: str = ""
    user_agent: str = field(default_factory=lambda: f"Pilotlight/{package_version()} (self-hosted search)")
    render: Annotated[str, Meta(pattern=f"^({'|'.join(RENDER)})$")] = "off"
    render_timeout: float = 15.0
    render_bytes: int = 20_000_000
    link_template: str = ""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for network in () if isinstance(self.allow_private, bool) else self.allow_private:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ConfigError(
                    f"allow_private must be yes, no or networks such as 10.0.0.0/8,fd00::/8: {network[:80]!r} ({error})"
                ) from None
        proxy = urlsplit(self.http_proxy)
        if self.http_proxy not in ("", ENVIRONMENT) and (
            proxy.scheme not in ("http", "https") or not proxy.hostname or has_user(self.http_proxy)
        ):
            raise ConfigError(
                "http_proxy must be environment, or the http or https address of a proxy without a user or password; "
                "an address with a password can only be set in the environment"
            )
        if self.link_template:
            example = link_of(self.link_template, b"x", "x")
            if "{path}" not in self.link_template:
                raise ConfigError("link_template must contain {path}")
            if "{" in example or "#" in example or normalise("", example) is None or has_user(example):
                form = "an http or https address with {path}, and optionally {ref}"
                raise ConfigError(f"link_template must be {form}, not {self.link_template[:200]!r}")
        for source in self.own:
            self.for_source(source)

    def for_source(self, source: str) -> "CrawlLimits":
        """Return the limits of one source, including its settings in `own`. Raises ConfigError if one is invalid."""
        overrides = {name: value for name, value in self.own.get(source, {}).items() if value is not None}
        if unknown := overrides.keys() - set(SOURCE_SETTINGS):
            raise ConfigError(
                f"{source} has no setting {min(unknown)}; the settings of a source are: {', '.join(SOURCE_SETTINGS)}"
            )
        scope = {name: overrides.pop(name, getattr(self.scope, name)) for name in ("include", "exclude")}
        fields = {name: getattr(self, name) for name in self.__slots__} | overrides | {"scope": scope, "own": {}}
        try:
            return msgspec.convert(fields, CrawlLimits)
        except msgspec.ValidationError as error:
            raise ConfigError(f"a limit of {source} is not valid: {error}") from error


@dataclass(frozen=True, slots=True)
class OcrConfig:
    """Settings of OCR for images and scanned pages. The mode `auto` runs Tesseract if it is installed."""

    mode: str = "auto"
    languages: tuple[str, ...] = ("deu", "eng")

    def __post_init__(self) -> None:
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"ocr_languages must be names that Tesseract knows, such as eng, not {language!r}")
        if not self.languages:
            raise ConfigError("ocr_languages must name a language, such as eng")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that affect the recognised text, as a JSON object for the manifest."""
        return {"languages": ",".join(self.languages), "confidence": MIN_OCR_CONFIDENCE, "pages": MAX_OCR_PAGES}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any] | None) -> Self:
        """Create a config from a result of `as_dict`. If `settings` is None, OCR is off."""
        return cls(mode="off") if settings is None else cls(languages=tuple(settings["languages"].split(",")))


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Settings of a build.

    `chunk_tokens` is the maximum number of tokens in a passage, without the title and headings that are embedded with
    the passage. `keep_generations` includes the live generation. `tokens` decides whether token vectors are stored for
    late interaction. By default, token vectors are stored unless `no_tokens` or `why_no_tokens` gives a reason not to.
    If `full` is True, nothing of the previous build is reused. If `allow_shrink` is True, a source may lose most of its
    documents. If `refresh` is not None, only the sources in `refresh` are read again. `model` has the options of the
    embedder. `credentials` are not stored in the index.
    """

    crawl: CrawlLimits = field(default_factory=CrawlLimits)
    chunk_tokens: int = CHUNK_TOKENS
    ocr: OcrConfig = field(default_factory=OcrConfig)
    keep_generations: int = 2
    tokens: bool | None = None
    no_tokens: str = ""
    full: bool = False
    allow_shrink: bool = False
    refresh: Collection[str] | None = None
    metadata: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    credentials: Sequence[Credential] = ()


def patterns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list into patterns, and drop empty patterns and duplicates."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def matches(pattern: str, path: str) -> bool:
    """Return whether a robots.txt pattern matches the beginning of a path, or the whole path if it has a final `$`."""
    *_, last = pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    ends = pattern.endswith("$")
    if len(pieces) == 1:
        return not ends or path == pieces[0]
    place = len(pieces[0])
    for piece in pieces[1:-1]:  # the first match is best, because it leaves the most text for the next pieces
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return path.endswith(last) and len(path) - len(last) >= place if ends else path.find(last, place) >= 0


def link_of(template: str, path: bytes, ref: str = "") -> str:
    """Fill in a link template, such as `https://git.example/blob/{ref}/{path}`. Drops a final `#L{line}`."""
    return template.removesuffix("#L{line}").replace("{path}", quote(path)).replace("{ref}", quote(ref))


Limits = Mapping[str, Mapping[str, Any]]


def inherit_limits(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> BuildConfig:
    """Copy each limit that a config does not set from the live index. Raises ConfigError if a limit is invalid."""
    stored = limits_of(live.settings if live is not None else {})
    limits: dict[str, dict[str, Any]] = {}
    for source in sources:
        merged = {**stored.get(source, {}), **config.crawl.own.get(source, {})}
        if valid := {name: merged[name] for name in settings_of(source) if merged.get(name) is not None}:
            limits[source] = valid
    return replace(config, crawl=replace(config.crawl, own=limits))


def has_same_limits(config: BuildConfig, live: Manifest) -> bool:
    """Return whether a config has the same limits for every source as the live index."""
    return bool(json.loads(json.dumps(config.crawl.own, default=dict)) == limits_of(live.settings))


def limits_differ(config: BuildConfig, live: Manifest, source: str) -> bool:
    """Return whether the limits of a source differ from those in the live index."""
    before, now = config_of(live).crawl.for_source(source), config.crawl.for_source(source)
    return before != replace(now, user_agent=before.user_agent)


def credentialed_sources(config: BuildConfig, sources: Collection[str], live: Manifest | None) -> list[str]:
    """Return the names of the sources that are read with credentials.

    Raises:
        CredentialsError: a source was read with credentials before, and none are configured for it now. Login pages
            could replace its pages. To read a source without secrets, configure a credential with only an origin.
    """
    before = set(live.settings.get("credentials", ())) if live is not None else set()
    credentials = {source: credential_for(source, config.credentials) for source in sources}
    for source, credential in credentials.items():
        if source in before and credential is None and (config.refresh is None or source in config.refresh):
            raise CredentialsError(
                f"{source} was read with credentials before, and there are none for it now: name the configuration "
                "file that has them with --config or PILOTLIGHT_RULES"
            )
    return [source for source, each in credentials.items() if (each.kinds() if each else source in before)]


def config_of(manifest: Manifest) -> BuildConfig:
    """Return the config that a manifest stores. Raises ConfigError or msgspec.ValidationError if it is not valid."""
    settings = manifest.settings
    limits = {  # a later version of Pilotlight may have stored limits that are unknown here
        source: {name: value for name, value in limits.items() if name in SOURCE_SETTINGS}
        for source, limits in limits_of(settings).items()
    }
    return BuildConfig(
        crawl=msgspec.convert({**settings.get("crawl", {}), "own": limits}, CrawlLimits),
        chunk_tokens=settings.get("chunk", {}).get("tokens", CHUNK_TOKENS),
        ocr=OcrConfig.from_dict(settings.get("ocr")),
        metadata=settings.get("metadata", {}),
        model=settings.get("model", {}),
    )


def without_private_access(manifest: Manifest) -> Manifest:
    """Return a copy of an imported manifest without the permissions to reach private addresses."""
    stored = limits_of(manifest.settings)
    limits = {source: {k: v for k, v in each.items() if k != "allow_private"} for source, each in stored.items()}
    return manifest if limits == stored else replace(manifest, settings=_with_limits(manifest.settings, limits))


def without_sources(settings: Mapping[str, Any], sources: Collection[str]) -> dict[str, Any]:
    """Return the settings of a build without the limits and page templates of the listed sources."""
    limits = {source: each for source, each in limits_of(settings).items() if source not in sources}
    templates = {source: each for source, each in settings.get("templates", {}).items() if source not in sources}
    return _with_limits(settings, limits) | {"templates": templates}


def limits_of(settings: Mapping[str, Any]) -> Limits:
    """Return the limits of each source from the settings in a manifest."""
    return settings.get("crawl", {}).get("own", {})  # type: ignore[no-any-return]  # JSON is untyped


def _with_limits(settings: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    return {**settings, "crawl": {**settings.get("crawl", {}), "own": limits}}

"""The options of a build. `rag.settings` checks the numbers that users give."""

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta

from indexer.errors import ConfigError
from indexer.network.credentials import Credential
from indexer.network.proxies import ENVIRONMENT
from indexer.network.urls import has_user, normalise

OCR_MODES = ("auto", "on", "off")
MIN_OCR_CONFIDENCE = 60  # percent
MAX_OCR_PAGES = 1_000
RENDER = ("off", "on", "auto")
_EVERY, _REMOTE = ("site", "repository", "bucket", "path"), ("site", "repository", "bucket")
_SETTINGS_OF_SOURCES = {
    "max_pages": ("site",),
    "max_depth": ("site",),
    "timeout": _REMOTE,
    "max_bytes": _EVERY,
    "include": _REMOTE,
    "exclude": _REMOTE,
    "delay": ("site",),
    "allow_private": ("site", "repository"),
    "render": ("site",),
    "link_template": ("repository", "bucket"),
}
SOURCE_SETTINGS = tuple(_SETTINGS_OF_SOURCES)
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z_]{1,30}")


def settings_of(source: str) -> list[str]:
    """Return the names of the settings that a source can have."""
    scheme = source.partition("://")[0].lower() if "://" in source else ""
    kind = "path" if not scheme else "bucket" if scheme in ("s3", "gs", "az") else "site"
    kind = "repository" if scheme.startswith("git+") else kind
    return [name for name, kinds in _SETTINGS_OF_SOURCES.items() if kind in kinds]


def package_version() -> str:
    """Return the version of this package, or 0 if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version("pilotlight")
    except metadata.PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """Patterns of paths. Without `include`, all pages are read; `exclude` overrides `include`.

    A pattern matches the beginning of a path. `*` matches any characters, and `$` the end.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in self.include + self.exclude:
            if not pattern.startswith(("/", "*")):
                raise ConfigError(
                    f"include and exclude are patterns of paths such as /docs/ or *.html$, not {pattern!r}: "
                    "begin with / or *"
                )

    def refusal(self, url: str) -> str | None:
        """Return the rule that excludes an address, or None."""
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        is_wanted = not self.include or any(matches(pattern, path) for pattern in self.include)
        by = next((pattern for pattern in self.exclude if matches(pattern, path)), "" if is_wanted else "--include")
        return f"excluded by {by}" if by else None


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """Limits for reading one source, in seconds and in bytes after decompression.

    `max_depth` counts links from the start page. `timeout` is for one page with its redirects, and `max_bytes` for one
    page or local file. `robots.txt` may ask for a longer delay between requests. `allow_private` permits all private
    addresses, or those in some networks. `http_proxy` may be `indexer.network.proxies.ENVIRONMENT`.
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
                    f"allow_private is yes, no or networks such as 10.0.0.0/8,fd00::/8, not {network[:80]!r} ({error})"
                ) from None
        proxy = urlsplit(self.http_proxy)
        if self.http_proxy not in ("", ENVIRONMENT) and (
            proxy.scheme not in ("http", "https") or not proxy.hostname or has_user(self.http_proxy)
        ):
            raise ConfigError(
                "http_proxy is environment or the http or https address of a proxy; one with a password can only be in "
                "the environment"
            )
        if self.link_template:
            example = link_of(self.link_template, b"x", "x")
            if "{path}" not in self.link_template:
                raise ConfigError("link_template needs {path}")
            if "{" in example or "#" in example or normalise("", example) is None or has_user(example):
                form = "an http or https address with {path} and, if you like, {ref}"
                raise ConfigError(f"link_template must be {form}, not {self.link_template[:200]!r}")
        for source in self.own:
            self.of(source)

    def of(self, source: str) -> "CrawlLimits":
        """Return the limits of one source, with its settings in `own`. Raises ConfigError if they are not valid."""
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
class ChunkConfig:
    """The maximum tokens of a passage, without its heading context."""

    tokens: Annotated[int, Meta(ge=16)] = 200


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
        """Return the settings that change the text, JSON-ready, for the manifest."""
        return {"languages": ",".join(self.languages), "confidence": MIN_OCR_CONFIDENCE, "pages": MAX_OCR_PAGES}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any] | None) -> Self:
        """Return the config for the result of `as_dict`. None turns OCR off."""
        return cls(mode="off") if settings is None else cls(languages=tuple(settings["languages"].split(",")))


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Settings of a build.

    `keep_generations` includes the live generation. `tokens` decides whether tokens are kept for late interaction. None
    keeps them unless `no_tokens` or `why_no_tokens` gives a reason not to. `full` reads, cuts and publishes everything
    again. `allow_shrink` accepts a source that lost most of its documents. Only the sources in `refresh` are read
    again, or all if it is None. `model` records the options of the embedder. `credentials` are not stored.
    """

    crawl: CrawlLimits = field(default_factory=CrawlLimits)
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
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
    """Return the patterns of a comma-separated list."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern of robots.txt matches the beginning of a path, or with `$` at its end the whole path."""
    *_, last = pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    ends = pattern.endswith("$")
    if len(pieces) == 1:
        return not ends or path == pieces[0]
    place = len(pieces[0])
    for piece in pieces[1:-1]:  # the first match leaves the longest rest, so it is the only one to try
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return path.endswith(last) and len(path) - len(last) >= place if ends else path.find(last, place) >= 0


def link_of(template: str, path: bytes, ref: str = "") -> str:
    """Return the address of a file by a link template, without the `#L{line}` of the template."""
    return template.removesuffix("#L{line}").replace("{path}", quote(path)).replace("{ref}", quote(ref))

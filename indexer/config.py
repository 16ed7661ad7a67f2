"""The options of a build: frozen, units in the comments. `rag.settings` checks the numbers that users give."""

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
OCR_CONFIDENCE = 60  # percent; less certain lines are left out
OCR_PAGES = 1_000  # most scanned pages of one document
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
    """Return the version of this package, 0 where it is not installed."""
    from importlib import metadata

    try:
        return metadata.version("pilotlight")
    except metadata.PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """Patterns of paths: each matches the beginning of a path; `*` matches any characters, `$` the end."""

    include: tuple[str, ...] = ()  # none means every page
    exclude: tuple[str, ...] = ()  # overrides include

    def __post_init__(self) -> None:
        for pattern in self.include + self.exclude:
            if not pattern.startswith(("/", "*")):
                raise ConfigError(
                    f"include and exclude are patterns of paths such as /docs/ or *.html$, not {pattern!r}: "
                    "begin with / or *"
                )

    def refusal(self, url: str) -> str | None:
        """Say which rule leaves an address out, or None if it is wanted."""
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        is_wanted = not self.include or any(matches(pattern, path) for pattern in self.include)
        by = next((pattern for pattern in self.exclude if matches(pattern, path)), "" if is_wanted else "--include")
        return f"excluded by {by}" if by else None


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """Limits on how far and how hard a site is crawled. The byte limit holds for local files too."""

    max_pages: Annotated[int, Meta(ge=1)] = 10_000  # urls requested from one site
    max_depth: Annotated[int, Meta(ge=0)] = 32  # links followed from the start page
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 20.0  # seconds one page may take in all, redirects included
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000  # bytes of one page, after decompression
    max_total_bytes: int = 100_000_000_000  # bytes of all pages of one site, after decompression
    scope: CrawlScope = field(default_factory=CrawlScope)
    concurrency: int = 4  # fetcher threads, for each site
    delay: Annotated[float, Meta(ge=0, le=3_600)] = 0.0  # seconds between two requests; robots.txt may ask for more
    allow_private: bool | tuple[str, ...] = False  # whether non-public addresses may be reached, or in which networks
    http_proxy: str = ""  # address of the proxy of all requests, or `indexer.network.proxies.ENVIRONMENT`; empty: none
    user_agent: str = field(default_factory=lambda: f"Pilotlight/{package_version()} (self-hosted search)")
    render: Annotated[str, Meta(pattern=f"^({'|'.join(RENDER)})$")] = "off"
    render_timeout: float = 15.0  # seconds in which the scripts of a page draw it
    render_bytes: int = 20_000_000  # bytes that they may load, after decompression
    link_template: str = ""  # addresses of the files of a repository or bucket, see `link_of`
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
                what = "an http or https address with {path} and, if you like, {ref}"
                raise ConfigError(f"link_template must be {what}, not {self.link_template[:200]!r}")
        for source in self.own:
            self.of(source)

    def of(self, source: str) -> "CrawlLimits":
        """Return the limits of one source: its own where it has some. Raises ConfigError if they make no sense."""
        own = {name: value for name, value in self.own.get(source, {}).items() if value is not None}
        if unknown := own.keys() - set(SOURCE_SETTINGS):
            raise ConfigError(
                f"{source} has no setting {min(unknown)}; the settings of a source are: {', '.join(SOURCE_SETTINGS)}"
            )
        scope = {name: own.pop(name, getattr(self.scope, name)) for name in ("include", "exclude")}
        fields = {name: getattr(self, name) for name in self.__slots__} | own | {"scope": scope, "own": {}}
        try:
            return msgspec.convert(fields, CrawlLimits)
        except msgspec.ValidationError as error:
            raise ConfigError(f"a limit of {source} is not valid: {error}") from error


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """The longest passage, in tokens of the embedding model."""

    tokens: Annotated[int, Meta(ge=16)] = 200  # heading context not included


@dataclass(frozen=True, slots=True)
class OcrConfig:
    """Settings of OCR for images and scanned pages."""

    mode: str = "auto"  # one of OCR_MODES; auto: where all that it needs is installed
    languages: tuple[str, ...] = ("deu", "eng")  # names of Tesseract

    def __post_init__(self) -> None:
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"ocr_languages must be names that Tesseract knows, such as eng, not {language!r}")
        if not self.languages:
            raise ConfigError("ocr_languages must name a language, such as eng")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that change the text, JSON-ready, for the manifest."""
        return {"languages": ",".join(self.languages), "confidence": OCR_CONFIDENCE, "pages": OCR_PAGES}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any] | None) -> Self:
        """Return the config of `as_dict`; None: off."""
        if given is None:
            return cls(mode="off")
        return cls(languages=tuple(given["languages"].split(",")))


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Settings of a build."""

    crawl: CrawlLimits = field(default_factory=CrawlLimits)
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
    ocr: OcrConfig = field(default_factory=OcrConfig)
    keep_generations: int = 2  # generations to keep, including the live one
    tokens: bool | None = None  # keep what late interaction needs of every token; None where that helps
    no_tokens: str = ""  # why None comes to no
    full: bool = False  # read and cut every page again, whatever its server says, and publish in any case
    allow_shrink: bool = False  # believe a source that has lost most of its documents
    refresh: Collection[str] | None = None  # sources to read again, others being taken over; None means all
    metadata: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)  # what the embedder was made with, to be told
    credentials: Sequence[Credential] = ()  # what origins are asked with; no part of what is kept


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a comma-separated list."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def matches(pattern: str, path: str) -> bool:
    """Return whether a path begins as a pattern of robots.txt says, or is of it as a whole where that ends with `$`."""
    *_, last = pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    ends = pattern.endswith("$")
    if len(pieces) == 1:
        return not ends or path == pieces[0]
    place = len(pieces[0])
    for piece in pieces[1:-1]:  # the first place that fits leaves most to the rest, so there is nothing to try again
        place = path.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return path.endswith(last) and len(path) - len(last) >= place if ends else path.find(last, place) >= 0


def link_of(template: str, path: bytes, ref: str = "") -> str:
    """Return the address of a file by a link template, without the anchor of a line, which is always `#L12`."""
    return template.removesuffix("#L{line}").replace("{path}", quote(path)).replace("{ref}", quote(ref))

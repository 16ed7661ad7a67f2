"""All settings. Each is declared once, as a field of `Settings` that defines its flag, variable, help and limits."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from embedder.config import ENGINES, PACKAGED, PRECISIONS, QUERY_PRECISIONS, EmbedderConfig, default_folder
from indexer.config import OCR_MODES, RENDER, SOURCE_SETTINGS, BuildConfig, CrawlLimits, CrawlScope, OcrConfig, patterns
from indexer.errors import plain
from indexer.generation.manifest import INSIGHTS, KEYS, collection_dir
from rag.errors import SettingsError

TYPE_NAMES = {str: "text", int: "whole number", float: "number", bool: "yes-or-no"}
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_READERS: dict[type, Callable[[object], object]] = {
    str: lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value),
    int: lambda value: int(str(value)),
    float: lambda value: float(str(value)),
    bool: lambda value: _WORDS[str(value).lower()],
}
_VECTOR_SETTINGS = ("model", "query_prompt", "document_prompt", "precision")

T = TypeVar("T", str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a setting: its name, type, default, help and limits."""

    name: str
    kind: type[Any]
    default: Any
    help: str
    group: str  # heading in docs/reference.md
    choices: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None  # minimum and maximum
    bare: str = ""  # value of a flag without argument, such as `--tokens`; empty if an argument is required

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"PILOTLIGHT_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The name of the command-line flag."""
        return f"--{self.name.replace('_', '-')}"

    def read(self, value: object, origin: str) -> Any:
        """Convert a value to the type of the setting. Raises SettingsError, which names the value's `origin`."""
        parsed = read_value(value, origin, self.kind, self.choices)
        if self.limits and not self.limits[0] <= parsed <= self.limits[1]:
            least, highest = map(plain, self.limits)
            raise SettingsError(f"{origin} must be from {least} to {highest}, not {value!r}")
        return parsed


def setting(default: T, help: str, *, secret: bool = False, **rules: Any) -> T:
    """Declare a field of `Settings`. The `repr` of `Settings` omits secrets.

    `rules` are further fields of `Setting`. Without a rule `group`, the setting is in the group of the field before it.
    """
    return dataclasses.field(default=default, repr=not secret, metadata={"help": help, **rules})


def read_value(value: object, origin: str, kind: type, choices: tuple[str, ...] = ()) -> Any:
    """Convert a value to the type `kind`. Raises SettingsError, which names the `origin`, such as a flag."""
    try:
        parsed = _READERS[kind](value)
    except (ValueError, TypeError, KeyError):
        expected = "yes or no" if kind is bool else f"a {TYPE_NAMES[kind]}"
        raise SettingsError(f"{origin} must be {expected}, not {value!r}") from None
    if choices and parsed not in choices:
        raise SettingsError(f"{origin} must be one of {', '.join(choices)}, not {value!r}")
    return parsed


def nearest(word: str, choices: Iterable[str], least: float = 0.6) -> str | None:
    """Return the choice most similar to a word, or None if no similarity is at least `least` (0 to 1)."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:100], list(choices), n=1, cutoff=least)), None)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return ", did you mean NAME?" with the choice most similar to a word, or "" if no choice is similar."""
    near = nearest(word, choices)
    return f", did you mean {near}?" if near else ""


def refuse_unknown(names: Iterable[str], choices: Sequence[str], where: str) -> None:
    """Raise SettingsError for the first name that is not in `choices`. The message begins with `where`."""
    for name in names:
        if name not in choices:
            hint = did_you_mean(name, choices) or f"; use one of: {', '.join(choices)}"
            raise SettingsError(f"{where}: unknown name {name[:40]!r}{hint}")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with their defaults. `load` checks the values, but the constructor does not."""

    index: str = setting("pilotlight-index", "folder of the index", group="index")
    collection: str = setting("default", "name of the collection; search takes several, with commas, or * for all")
    rules: str = setting("", "file of [[credentials]] for sites and [[access]] for users; empty = the file of --config")
    store: str = setting(
        "", "Milvus to publish to and serve from, milvus://HOST:19530/NAME; empty = only the index", group="store"
    )
    keep_generations: int = setting(2, "generations to keep, including the live one", group="build", limits=(1, 1000))
    tokens: str = setting(
        "auto",
        "store every token, one bit per dimension, for late interaction; auto = yes for up to 200,000 passages, if the "
        "model knows their language and is not multilingual",
        choices=("auto", "yes", "no"),
        bare="yes",
    )
    ray: str = setting(
        "", "Ray cluster to embed on: HOST:PORT, local, or auto for the one this machine belongs to; empty = none"
    )
    model: str = setting(PACKAGED, "packaged model, folder of a model, or NAME@COMMIT of the hub", group="embedder")
    query_prompt: str = setting("", "text before each query, such as 'query: '; empty = the model's own")
    document_prompt: str = setting("", "text before each passage, such as 'passage: '; empty = the model's own")
    engine: str = setting(
        "auto", "how to run the model; auto = native if it supports the model, else aot", choices=ENGINES
    )
    precision: str = setting(
        "auto", "precision of the model; auto = bf16 if the CPU has it in hardware, else fp32", choices=PRECISIONS
    )
    query_precision: str = setting(
        "auto",
        "precision of queries; same = that of the index; auto = int8 if the CPU has it in hardware (native engine) and "
        "the model knows the languages of the index and has up to 384 dimensions a token; else same",
        choices=QUERY_PRECISIONS,
    )
    threads: int = setting(
        0,
        "cores for one run of the model; 0 = all physical cores, or in serve a worker's share (native engine)",
        limits=(0, 1024),
    )
    cache_dir: str = setting("", "private folder for compiled models; empty = ~/.cache/pilotlight")
    rerank_model: str = setting(
        "", "cross-encoder that ranks the best candidates again, a folder or NAME@COMMIT; empty = none", group="rerank"
    )
    max_pages: int = setting(10_000, "maximum number of pages from one site", group="crawl", limits=(1, 100_000_000))
    max_depth: int = setting(32, "maximum link depth below the start page; 0 = only that page", limits=(0, 1_000_000))
    timeout: float = setting(20.0, "seconds to wait for one page, including redirects", limits=(0.01, 86_400))
    max_bytes: int = setting(10_000_000, "largest page or file to read, in bytes", limits=(1, 1_000_000_000))
    include: str = setting("", "paths to index, such as /docs/,/blog/*.html$; empty = all")
    exclude: str = setting("", "paths to leave out, in the same notation")
    delay: float = setting(0.0, "seconds between requests to a site", limits=(0, 3600))
    allow_private: str = setting(
        "no", "allow loopback and private addresses: yes, or only networks such as 10.0.0.0/8,fd00::/8", bare="yes"
    )
    http_proxy: str = setting(
        "",
        "HTTP proxy of all requests to sites, repositories, buckets and answer_url, but not to this machine; "
        "environment = that of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; empty = none",
        bare="environment",
    )
    render: str = setting(
        "off",
        "render pages with Chromium before reading; auto = only pages that need scripts; needs pilotlight[render]",
        choices=RENDER,
        bare="auto",
    )
    link_template: str = setting(
        "", "address of the files of a repository or bucket, such as https://HOST/{path}; empty = shown from the index"
    )
    chunk_tokens: int = setting(200, "length of a passage, in tokens", group="chunk", limits=(16, 100_000))
    ocr: str = setting(
        "auto",
        "read scanned pages and images by OCR; auto = if pilotlight[ocr] is installed, on = fail if it is not",
        group="ocr",
        choices=OCR_MODES,
    )
    ocr_languages: str = setting("deu,eng", "languages of scans, as Tesseract names them")
    host: str = setting("127.0.0.1", "address to listen on", group="serve")
    port: int = setting(8642, "port to listen on", limits=(1, 65_535))
    workers: int = setting(
        0,
        "worker processes; 0 = one per core (native engine), or as many as the cores and threads allow",
        limits=(0, 256),
    )
    synonyms: str = setting("", "file of synonyms, one rule a line: a, b or a => b; empty = none")
    close: float = setting(
        0.4,
        "minimum cosine of a close hit, if unrelated texts have 0; a hit with all words needs half; 0 = any is close",
        limits=(0, 1),
    )
    log_format: str = setting("text", "format of the log", choices=("text", "json"))
    site_name: str = setting("Pilotlight", "name of the search page", group="page")
    keys: str = setting("", "file with the API keys; empty = keys.json in the index folder", group="access")
    anonymous: str = setting(
        "auto",
        "access without a key; auto = read if there are no keys and the server is on loopback",
        choices=("auto", "none", "read"),
    )
    cors_origins: str = setting("", "other origins whose pages may call the API; empty = none, * = any")
    proxies: int = setting(
        0, "trusted reverse proxies in front of the server, for X-Forwarded-For, -Proto and -Prefix", limits=(0, 10)
    )
    path_prefix: str = setting(
        "", "path prefix below which a proxy publishes this server, such as /search; empty = X-Forwarded-Prefix"
    )
    rate_limit: float = setting(
        0.0,
        "requests per second of each key or user, else each address; bursts of twice as many; 0 = no limit",
        limits=(0, 1_000_000),
    )
    query_cache: int = setting(
        16, "megabytes of recent queries and answers cached in each worker; 0 = none", limits=(0, 65_536)
    )
    deadline: float = setting(10.0, "seconds after which a waiting search gets status 503", limits=(0.01, 3600))
    user_header: str = setting(
        "", "header in which a reverse proxy names the user, such as X-Forwarded-User; empty = none", group="users"
    )
    groups_header: str = setting("X-Forwarded-Groups", "header for the user's groups, separated by commas")
    user_proxies: str = setting(
        "", "networks of proxies that may send user_header, such as 10.0.0.5,fd00::/64; empty = any with proxy_secret"
    )
    proxy_secret: str = setting(
        "", "secret that proxies send with user_header; safer in the variable than in the flag", secret=True
    )
    answer_url: str = setting(
        "", "OpenAI-compatible API for written answers, such as http://127.0.0.1:8080/v1", group="answers"
    )
    answer_model: str = setting("", "name of the model at answer_url")
    answer_key: str = setting("", "API key for answer_url; safer in the variable than in the flag", secret=True)
    answer_page: str = setting(
        "button",
        "when the search page writes an answer: button = on request, auto = for every question that is entered",
        choices=("button", "auto", "off"),
    )
    answer_strict: bool = setting(
        default=False, help="leave out a sentence of a written answer if no passage has its quotation"
    )
    insights: int = setting(
        0,
        "days to keep searches, and the hits that were opened, on this machine; 0 = keep nothing",
        group="insights",
        limits=(0, 3650),
        bare="90",
    )

    @property
    def index_dir(self) -> Path:
        """The index folder."""
        return Path(self.index).expanduser()

    @property
    def collection_dir(self) -> Path:
        """The folder of the collection. Raises ConfigError if the name of the collection is invalid."""
        return collection_dir(self.index_dir, self.collection)

    @property
    def keys_file(self) -> Path:
        """The path of the key file, which may be missing."""
        return Path(self.keys).expanduser() if self.keys else self.index_dir / KEYS

    @property
    def rules_path(self) -> Path:
        """The file with credentials for sites and access rules for users."""
        return Path(self.rules).expanduser()

    @property
    def insights_folder(self) -> Path:
        """The folder of recorded searches, which may be missing."""
        return self.index_dir / INSIGHTS

    @property
    def cache(self) -> Path:
        """The folder for compiled models."""
        return Path(self.cache_dir).expanduser() if self.cache_dir else default_folder()

    def embedder_config(self) -> EmbedderConfig:
        """Return the configuration of the embedder."""
        names = ("query_prompt", "document_prompt", "engine", "precision", "query_precision", "threads")
        fields = {name: getattr(self, name) for name in names}
        return EmbedderConfig(*_hub_name(self.model), cache_dir=self.cache, **fields)

    def reranker_config(self) -> EmbedderConfig | None:
        """Return the configuration of the cross-encoder, or None if `rerank_model` is not set."""
        if not self.rerank_model:
            return None
        return EmbedderConfig(*_hub_name(self.rerank_model), precision=self.precision, cache_dir=self.cache, pairs=True)

    def build_config(self) -> BuildConfig:
        """Return the configuration of a build. Raises ConfigError if a setting is invalid."""
        model = {name: getattr(self, name) for name in _VECTOR_SETTINGS}
        if self.model != PACKAGED and (folder := Path(self.model).expanduser()).exists():
            model["model"] = str(folder.absolute())
        limits = own_limits({name: getattr(self, name) for name in SOURCE_SETTINGS})
        scope = CrawlScope(limits.pop("include"), limits.pop("exclude"))
        return BuildConfig(
            crawl=CrawlLimits(scope=scope, http_proxy=self.http_proxy, **limits),
            chunk_tokens=self.chunk_tokens,
            ocr=self.ocr_config(),
            keep_generations=self.keep_generations,
            tokens=self.keeps_tokens,
            no_tokens="Milvus does not keep them" if self.store else "",
            model=model,
        )

    @property
    def keeps_tokens(self) -> bool | None:
        """The setting `tokens` as a boolean, or None if the build decides."""
        return {"yes": True, "no": False}.get(self.tokens)

    def ocr_config(self) -> OcrConfig:
        """Return the configuration of OCR. Raises ConfigError if a setting is invalid."""
        return OcrConfig(self.ocr, patterns(self.ocr_languages))

    def as_environment(self) -> dict[str, str]:
        """Return the environment variables that pass these settings to another process."""
        return {each.variable: str(getattr(self, each.name)) for each in SETTINGS}


def _declared() -> Iterator[Setting]:
    group = ""
    for field in dataclasses.fields(Settings):
        group = field.metadata.get("group", group)
        yield Setting(field.name, type(field.default), field.default, **{**field.metadata, "group": group})


SETTINGS = tuple(_declared())
BY_NAME = {declared.name: declared for declared in SETTINGS}


def load(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    configured: Mapping[str, object] | None = None,
) -> Settings:
    """Load all settings. A flag overrides an environment variable, which overrides the configuration file.

    Args:
        overrides: values of flags by the name of the setting.
        environ: environment variables; None for those of this process.
        configured: values in the configuration file by the name of the setting.

    Raises:
        SettingsError: a value is invalid. The message names its origin and the allowed values.
    """
    environ = os.environ if environ is None else environ
    overrides, configured = overrides or {}, configured or {}
    values: dict[str, Any] = {}
    for declared in SETTINGS:
        name = declared.name
        if name in overrides:
            values[name] = declared.read(overrides[name], declared.flag)
        elif declared.variable in environ:
            values[name] = declared.read(environ[declared.variable], declared.variable)
        elif name in configured:
            values[name] = declared.read(configured[name], f"{name} in the configuration file")
    if "://" in (index := values.get("index", "")):
        scheme = index.partition("://")[0][:20]  # the rest may contain a secret
        raise SettingsError(f"--index {scheme}://…: the index must be a folder; --store takes the address of Milvus")
    return Settings(**values)


def own_limits(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a source by name, with lists such as `include` parsed from comma-separated text."""
    read: dict[str, Callable[[str], Any]] = {"include": patterns, "exclude": patterns, "allow_private": _networks}
    return {name: read[name](value) if name in read else value for name, value in values.items()}


def _hub_name(text: str) -> tuple[str, str]:
    """Split NAME@COMMIT into two texts. An existing folder is not split, because its name may contain an @."""
    name, at, commit = text.rpartition("@")
    return (name, commit) if at and not Path(text).expanduser().exists() else (text, "")


def _networks(text: str) -> bool | tuple[str, ...]:
    """Parse `allow_private`: yes, no, or a comma-separated list of networks."""
    flag = _WORDS.get(text.strip().lower())
    return patterns(text) if flag is None else flag

"""Every setting, in one table: the command line, the environment and the documentation are all made from it."""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from embedder.cache import default_folder
from embedder.model.spec import PACKAGED
from indexer.generation.layout import KEYS, collection_dir, is_url
from indexer.wording import plain
from rag.errors import SettingsError
from rag.query.options import EXPANSIONS

TYPE_NAMES = {str: "text", int: "whole number", float: "number", bool: "yes-or-no"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    default: str | int | float | bool
    help: str
    group: str  # which part reads it, and its heading in docs/settings.md
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    bare: str = ""  # what the flag means without a value; empty where it needs one

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"PILOTLIGHT_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """Name of the command-line flag."""
        return f"--{self.name.replace('_', '-')}"


SETTINGS: tuple[Setting, ...] = (
    Setting("index", "pilotlight-index", "folder of the index; to read it, also s3:// or file://", "index"),
    Setting("collection", "default", "name of the collection", "index"),
    Setting("store", "", "store to publish to and serve from: milvus://HOST:19530/NAME; empty = the index", "store"),
    Setting("replica_dir", "", "folder for copies of a remote index; empty = replicas in the cache folder", "replica"),
    Setting("poll", 10.0, "seconds between checks of a remote index for changes", "replica", low=0.05, high=86_400),
    Setting("keep_generations", 2, "generations to keep, including the live one", "build", low=1, high=1000),
    Setting(
        "vector_index",
        "auto",
        "kind of vector index; auto chooses by the number of vectors",
        "build",
        choices=("auto", "flat", "pq", "ivf", "hnsw"),
    ),
    Setting(
        "ray",
        "",
        "Ray cluster to build on: HOST:PORT, local, or auto for the one this machine belongs to; empty = none",
        "build",
    ),
    Setting("model", PACKAGED, "packaged model, folder of a sentence-transformers model, or hub name", "embedder"),
    Setting("revision", "", "commit hash of a hub model, required with a hub name", "embedder"),
    Setting(
        "engine",
        "auto",
        "how to run the model; auto = native if it supports the model, else aot",
        "embedder",
        choices=("auto", "native", "aot", "compile", "eager"),
    ),
    Setting(
        "precision",
        "auto",
        "precision of the model; auto = bf16 if the CPU has it in hardware, else fp32",
        "embedder",
        choices=("auto", "fp32", "bf16", "int8"),
    ),
    Setting(
        "threads",
        0,
        "cores for one run of the model; 0 = all physical cores, or in serve a worker's share (native engine)",
        "embedder",
        low=0,
        high=1024,
    ),
    Setting("cache_dir", "", "private folder for compiled models; empty = ~/.cache/pilotlight", "embedder"),
    Setting("max_pages", 10_000, "most pages to fetch from one site", "crawl", low=1, high=100_000_000),
    Setting("max_depth", 32, "most links to follow from the start page", "crawl", low=0, high=1_000_000),
    Setting("timeout", 20.0, "seconds to wait for one page, including redirects", "crawl", low=0.01, high=86_400),
    Setting("max_bytes", 10_000_000, "largest page or file to read, in bytes", "crawl", low=1, high=1_000_000_000),
    Setting(
        "max_total_bytes",
        10_000_000_000,
        "most bytes to read from one site",
        "crawl",
        low=1,
        high=1_000_000_000_000_000,
    ),
    Setting("include", "", "paths to index, such as /docs/,/blog/*.html$; empty = all", "crawl"),
    Setting("exclude", "", "paths to leave out, in the same notation", "crawl"),
    Setting("concurrency", 4, "pages to fetch at the same time from each site", "crawl", low=1, high=64),
    Setting("sites", 4, "sites to crawl at the same time", "crawl", low=1, high=64),
    Setting("delay", 0.0, "seconds between requests to a site", "crawl", low=0, high=3600),
    Setting(
        "allow_private",
        "no",
        "allow loopback and private addresses: yes, or only networks such as 10.0.0.0/8,fd00::/8",
        "crawl",
        bare="yes",
    ),
    Setting("chunk_tokens", 200, "length of a passage, in tokens", "chunk", low=16, high=100_000),
    Setting("chunk_overlap", 0, "tokens to repeat from the previous passage", "chunk", low=0, high=50_000),
    Setting("host", "127.0.0.1", "address to listen on", "serve"),
    Setting("port", 8642, "port to listen on", "serve", low=1, high=65_535),
    Setting(
        "workers",
        0,
        "worker processes; 0 = one per core (native engine), or as many as the cores and threads allow",
        "serve",
        low=0,
        high=256,
    ),
    Setting("max_k", 100, "most hits a query may ask for", "serve", low=1, high=10_000),
    Setting(
        "per_document",
        2,
        "most hits from one document, unless the query says; 0 = no limit",
        "serve",
        low=0,
        high=1000,
    ),
    Setting(
        "expand",
        "none",
        "what to return with hits, unless the query says: section adds the surrounding passages",
        "serve",
        choices=EXPANSIONS,
    ),
    Setting(
        "close",
        0.4,
        "cosine from which a hit is close to the query; 0 = any (the default is measured for the default model)",
        "serve",
        low=0,
        high=1,
    ),
    Setting("max_query_chars", 10_000, "longest query, in characters", "serve", low=1, high=1_000_000),
    Setting("log_format", "text", "format of the log", "serve", choices=("text", "json")),
    Setting("log_queries", False, "log the queries", "serve"),
    Setting("site_name", "Pilotlight", "name of the search page", "page"),
    Setting("site_logo", "", "logo of the search page, an SVG, PNG, WebP or JPEG file; empty = Pilotlight's", "page"),
    Setting("site_accent", "", "colour of links and buttons, such as #b3261e; empty = blue", "page"),
    Setting(
        "examples",
        "",
        "example questions on the start page, separated by |; empty = headings of the index, none = no questions",
        "page",
    ),
    Setting(
        "originals",
        False,
        "let callers who may search download the indexed files of folders",
        "page",
    ),
    Setting("keys", "", "file with the API keys; empty = keys.json in the index folder", "access"),
    Setting(
        "anonymous",
        "auto",
        "what callers without a key may do; auto = read if there are no keys and the server is on loopback",
        "access",
        choices=("auto", "none", "read"),
    ),
    Setting("cors_origins", "", "other origins whose pages may call the API; empty = none, * = any", "access"),
    Setting(
        "proxies", 0, "number of reverse proxies in front, whose X-Forwarded-For is trusted", "access", low=0, high=10
    ),
    Setting(
        "rate_limit",
        0.0,
        "requests per second for each key or, without one, address; bursts of twice that; 0 = no limit",
        "access",
        low=0,
        high=1_000_000,
    ),
    Setting(
        "queue",
        64,
        "most requests in progress or waiting in one worker; more get 503",
        "access",
        low=1,
        high=100_000,
    ),
    Setting("deadline", 10.0, "seconds after which a search gets 503", "access", low=0.01, high=3600),
    Setting(
        "job_sources",
        "",
        "addresses and folders that callers with the role write may index; empty = only those of the index",
        "access",
    ),
    Setting("answer_url", "", "OpenAI-compatible API for written answers, such as http://127.0.0.1:8080/v1", "answers"),
    Setting("answer_model", "", "model to ask for at answer_url", "answers"),
    Setting("answer_key", "", "API key for answer_url; safer in the variable than in the flag", "answers"),
    Setting("answer_timeout", 60.0, "seconds to wait for one answer", "answers", low=0.01, high=3600),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """The value of every row of `SETTINGS`."""

    index: str
    collection: str
    store: str
    replica_dir: str
    poll: float
    keep_generations: int
    vector_index: str
    ray: str
    model: str
    revision: str
    engine: str
    precision: str
    threads: int
    cache_dir: str
    max_pages: int
    max_depth: int
    timeout: float
    max_bytes: int
    max_total_bytes: int
    include: str
    exclude: str
    concurrency: int
    sites: int
    delay: float
    allow_private: str
    chunk_tokens: int
    chunk_overlap: int
    host: str
    port: int
    workers: int
    max_k: int
    per_document: int
    expand: str
    close: float
    max_query_chars: int
    log_format: str
    log_queries: bool
    site_name: str
    site_logo: str
    site_accent: str
    examples: str
    originals: bool
    keys: str
    anonymous: str
    cors_origins: str
    proxies: int
    rate_limit: float
    queue: int
    deadline: float
    job_sources: str
    answer_url: str
    answer_model: str
    answer_key: str = field(repr=False)
    answer_timeout: float

    @property
    def index_dir(self) -> Path:
        """The index folder; where the index is an address, that of its copy on this machine."""
        if not is_url(self.index):
            return Path(self.index).expanduser()
        copies = Path(self.replica_dir).expanduser() if self.replica_dir else self.cache / "replicas"
        return copies / hashlib.sha256(self.index.rstrip("/").encode()).hexdigest()[:16]

    @property
    def collection_dir(self) -> Path:
        """The folder of the collection; raises ConfigError if no collection can have its name."""
        return collection_dir(self.index_dir, self.collection)

    @property
    def keys_file(self) -> Path:
        """The file of keys, which need not be there."""
        return Path(self.keys).expanduser() if self.keys else self.index_dir / KEYS

    @property
    def cache(self) -> Path:
        """The package cache folder."""
        return Path(self.cache_dir).expanduser() if self.cache_dir else default_folder()

    def as_environment(self) -> dict[str, str]:
        """Return the variables that make `load` give these settings in another process."""
        values = dataclasses.asdict(self)
        return {BY_NAME[name].variable: str(value) for name, value in values.items()}


def load(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    configured: Mapping[str, object] | None = None,
) -> Settings:
    """Make settings from overrides (flags), then the environment, then a configuration file, then the defaults.

    Raises SettingsError naming the flag, variable or name in the file, its value and what is allowed.
    """
    environ = os.environ if environ is None else environ
    overrides, configured = overrides or {}, configured or {}
    values: dict[str, object] = {}
    for setting in SETTINGS:
        if setting.name in overrides:
            values[setting.name] = parse_value(setting, overrides[setting.name], setting.flag)
        elif setting.variable in environ:
            values[setting.name] = parse_value(setting, environ[setting.variable], setting.variable)
        elif setting.name in configured:
            values[setting.name] = parse_value(
                setting, configured[setting.name], f"{setting.name} in the configuration file"
            )
        else:
            values[setting.name] = setting.default
    return Settings(**values)  # type: ignore[arg-type]  # the table and the fields are held together by a test


def parse_value(setting: Setting, value: object, origin: str) -> object:
    """Read the value of a setting; `origin` says in an error where it was given. Raises SettingsError."""
    kind = type(setting.default)
    try:
        parsed = _READERS[kind](value)
    except (ValueError, TypeError, KeyError):
        raise SettingsError(f"{origin} must be a {TYPE_NAMES[kind]}, not {value!r}") from None
    if setting.choices and parsed not in setting.choices:
        raise SettingsError(f"{origin} must be one of {', '.join(setting.choices)}, not {value!r}")
    low, high = setting.low, setting.high
    if low is not None and high is not None and not low <= parsed <= high:  # type: ignore[operator]  # it is a number
        raise SettingsError(f"{origin} must be from {plain(low)} to {plain(high)}, not {value!r}")
    return parsed


WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_READERS: dict[type, Callable[[object], object]] = {
    str: lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value),
    int: lambda value: int(str(value)),
    float: lambda value: float(str(value)),
    bool: lambda value: WORDS[str(value).lower()],
}

"""Names that older versions had and this one refuses: settings, commands and routes, each with what takes its place."""

from collections.abc import Iterable, Mapping

from rag.errors import SettingsError

_REMOTE = "an index is a folder of this machine; export and import move it, and --store milvus://… shares it"
_TIMER = "a systemd timer or cron runs index again, as scripts/deploy/pilotlight-index.timer does"
_CONSTANT = "it is a constant now, the default of before"
_CRAWL = "concurrency max_total_bytes render_timeout render_bytes"  # of a source too

_SETTINGS = {  # what takes the place of some settings, and their names
    _CONSTANT: f"{_CRAWL} sites chunk_overlap ocr_confidence ocr_pages vector_index max_k max_query_chars "
    "answer_timeout rerank_depth",
    "sentences of answers are not judged; their citations open the passages": "answer_support",
    "each search may ask for it": "expand per_document",
    "a filter of each search says which documents may be found": "boost",
    "vectors are as long as the model makes them: build the index anew": "dimensions",
    "write NAME@COMMIT for a model of the hub": "revision rerank_revision",
    "the cross-encoder runs in the precision of the model": "rerank_engine rerank_precision rerank_threads",
    "rules names the file of [[credentials]] and [[access]]": "credentials_file access_file",
    "the header is X-Proxy-Secret": "proxy_secret_header",
    "insights keep the queries": "log_queries",
    "pages have a name of yours; a reverse proxy can serve another /static/icon.svg": "site_accent site_logo",
    "an authenticating proxy logs people in, and user_header names them": "oidc_issuer oidc_audience oidc_jwks "
    "oidc_user_claim oidc_groups_claim oidc_leeway",
    _REMOTE: "replica_dir poll",
    "a web server can serve the folder, with access rules of its own": "originals",
    "a job reads the sources of the index; index --add on the machine of the server adds one": "job_sources",
    "insights are a folder of the index, with every search": "insights_dir insights_megabytes insights_sample",
    "insights keep nothing of who asked, and suggest nothing": "insights_redact insights_callers insights_suggest",
    "every build is live at once; compare judges two generations, rollback goes back": "hold_back hold_back_queries",
    "a server has one model: serve another one next to it": "other_models model_memory query_model query_revision",
}
SETTINGS = {name: instead for instead, names in _SETTINGS.items() for name in names.split()}
COMMANDS = {
    "drop": "collections --drop NAME deletes a collection",
    "generations": "rollback --list lists the generations",
    "sources": "doctor and the page /status list the sources of the index",
    "warm": "index, search and serve compile the model when they first need it",
    "insights": "the page /insights of the server shows what people ask, and /api/v1/insights.csv has its tables",
    "publish": "every build is live at once; rollback makes another generation live",
    "push": _REMOTE,
    "copy": "index --store milvus://… publishes what is built in the folder; export and import move an index",
}
ROUTES = {  # paths
    "/rerank": "POST /v1/rerank takes `documents` in place of `texts`",
    "/v2/rerank": "POST /v1/rerank takes the same fields",
    "/api/v1/embeddings": "POST /v1/embeddings takes the same fields, and answers as OpenAI does",
    "/api/v1/insights": "GET /api/v1/insights.csv has each table of the page",
}
FLAGS = {  # that were no settings
    "every": _TIMER,
    "report": "compare --json has every query",
    "least": "two searches must have led to a hit",
    "quick": "verify loads no model, so it is always quick",
    "http": "mcp speaks over standard input, with --server URL for what a running server has",
    "scope": "a key has one scope, of --collection, --filter, --user and --group",
    "diversity": "near-duplicates are folded, and per_document limits the hits of one document",
    "fusion": "hybrid is a weighted sum of both searches",
}
CREDENTIAL_KEYS = {  # of [[credentials]]
    "login": 'log in with a browser, export its cookies, and name that file: cookies = {file = "cookies.txt"}',
    "client_certificate": "a proxy next to the crawler, such as stunnel, shows one; or send headers, basic or bearer",
}
SOURCE_KEYS = {
    **dict.fromkeys(_CRAWL.split(), _CONSTANT),
    "every": _TIMER,
    "collection": "a file is for one collection, which [settings] or --collection names",
    "watch": "index --watch follows all folders and files",
}  # of [[source]]


def refuse_variables(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for the first environment variable of a setting that was removed."""
    for name, instead in SETTINGS.items():
        if f"PILOTLIGHT_{name.upper()}" in environ:
            raise SettingsError(f"PILOTLIGHT_{name.upper()} was removed: {instead}")


def refuse_address(index: str) -> None:
    """Raise SettingsError for an index that is given by its address: such indexes were removed."""
    scheme, mark, _ = index.partition("://")
    if mark:  # what follows may have a secret
        raise SettingsError(f"--index {scheme[:20]}://…: indexes at an address were removed: {_REMOTE}")


def refuse_names(names: Iterable[str], where: str, removed: Mapping[str, str] = SETTINGS) -> None:
    """Raise SettingsError for the first name in a configuration file that was removed; `where` names the file."""
    for name in names:
        if name in removed:
            raise SettingsError(f"{where}: {name} was removed: {removed[name]}")


def flag_hint(flag: str) -> str:
    """Return what takes the place of a flag that was removed; empty for any other."""
    return {**SETTINGS, **FLAGS}.get(flag.removeprefix("--").replace("-", "_"), "")

"""Names that older versions had and this one refuses: settings, commands and routes, each with what takes its place."""

from collections.abc import Iterable, Mapping

from rag.errors import SettingsError

_KEPT = "insights are the folder insights of the index, with every search of insights_days, up to 500 MB"
_NOBODY = "insights keep nothing of who asked, and suggest no questions; leave insights off to keep none at all"
_JUDGED = "every build is live at once; compare judges two generations, and rollback makes the better one live"
_MODEL = (
    "a server has one model: build with another into a new index folder, start a server on it, and switch the proxy"
)
_OIDC = "an authenticating proxy such as oauth2-proxy logs people in, and user_header names them"
_REMOTE = "an index is a folder of this machine; export and import move it, and --store milvus://… shares it"
_COOKIES = 'log in with a browser, export its cookies, and name that file: cookies = {file = "cookies.txt"}'
_TIMER = "a systemd timer or cron runs index again, as scripts/deploy/pilotlight-index.timer does"

_CRAWL = ("max_depth", "max_total_bytes", "render_timeout", "render_bytes")
_CONSTANT = "it is a constant now, the default of before"

SETTINGS = {
    **dict.fromkeys(_CRAWL, _CONSTANT),
    **dict.fromkeys("sites chunk_overlap ocr_confidence ocr_pages vector_index".split(), _CONSTANT),
    **dict.fromkeys("max_k max_query_chars answer_support rerank_depth".split(), _CONSTANT),
    **dict.fromkeys(("expand", "per_document"), "each search may ask for it"),
    **dict.fromkeys(("revision", "rerank_revision"), "write NAME@COMMIT for a model of the hub"),
    **dict.fromkeys(
        ("rerank_engine", "rerank_precision", "rerank_threads"), "the cross-encoder runs in the precision of the model"
    ),
    **dict.fromkeys(("credentials_file", "access_file"), "rules names the file of [[credentials]] and [[access]]"),
    "path_prefix": "the reverse proxy says it in X-Forwarded-Prefix, with proxies",
    "proxy_secret_header": "the header is X-Proxy-Secret",
    "log_queries": "insights keep the queries",
    "oidc_issuer": _OIDC,
    "oidc_audience": _OIDC,
    "oidc_jwks": _OIDC,
    "oidc_user_claim": _OIDC,
    "oidc_groups_claim": _OIDC,
    "oidc_leeway": _OIDC,
    "replica_dir": _REMOTE,
    "poll": _REMOTE,
    **dict.fromkeys(("insights_dir", "insights_megabytes", "insights_sample"), _KEPT),
    **dict.fromkeys(("insights_redact", "insights_callers", "insights_suggest"), _NOBODY),
    "hold_back": _JUDGED,
    "hold_back_queries": _JUDGED,
    "other_models": _MODEL,
    "model_memory": _MODEL,
    "query_model": _MODEL,
    "query_revision": _MODEL,
}
COMMANDS = {
    "drop": "collections --drop NAME deletes a collection",
    "generations": "rollback without an argument lists the generations",
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
    "quick": "verify loads no model, so it is always quick",
    "fusion": "hybrid is a weighted sum of both searches",
}
CREDENTIAL_KEYS = {  # of [[credentials]]
    "login": _COOKIES,
    "client_certificate": "a proxy next to the crawler, such as stunnel, shows one; or send headers, basic or bearer",
}
SOURCE_KEYS = {
    **dict.fromkeys(_CRAWL, _CONSTANT),
    "every": _TIMER,
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

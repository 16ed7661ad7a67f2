"""The verb `doctor`, which describes the machine, the model and the index in use, and reports problems."""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from typing import Any

from embedder import cpu
from embedder.engines.library import find_compiler
from embedder.engines.package import check_private, is_built, needs_compiler
from embedder.engines.plan import Plan, torch_version
from embedder.errors import PilotlightError
from indexer.config import limits_of
from indexer.crawl.browser import check_installed, installed_versions
from indexer.generation.generation import Generation
from indexer.generation.languages import languages_of
from indexer.network.credentials import Session
from indexer.pipeline.progress import token_use
from indexer.publish.publish import list_collections
from indexer.read import ocr
from indexer.read.reader_process import ReaderProcess
from indexer.sources.git import version as git_version
from rag.access import AccessRules
from rag.commands.cli import Result, verb
from rag.commands.models import plans, published_folder, with_index_precision
from rag.settings import SETTINGS, Settings, nearest
from rag.settings_file import credentials_of
from rag.stores import TOKEN, check_fingerprint, facts_of

_OTHER_VARIABLES = (cpu.ISA_VARIABLE, TOKEN, "PILOTLIGHT_KEY", "PILOTLIGHT_DOCS_PORT")


@verb("index", "embedder", "rerank", "ocr", "render", "users")
def doctor(settings: Settings) -> Result:
    """Describe the machine, the model and the index in use, and warn about slow or broken components."""
    warnings, processor = _misspelled(), cpu.detect()
    report: dict[str, Any] = {
        "cpu": {name: getattr(processor, name) for name in ("name", "machine", "isa", "isas", "cores")}
        | {"bf16": processor.has_bf16, "compiler": find_compiler()},
        "versions": {name: metadata.version(name) for name in ("pilotlight", "faiss-cpu", "tokenizers")}
        | {"torch": torch_version() or None, "git": git_version() or None, "python": platform.python_version()},
    }
    warnings += processor.notes
    if not processor.has_bf16:
        warnings.append("this CPU has no fast bf16 instructions: fp32 is used; int8 is two to three times as fast")
    model_plans: list[Plan] = []
    with _warning(warnings):
        model_plans = plans(with_index_precision(settings))
        if settings.cache.exists():
            check_private(settings.cache)
    for name, plan in zip(("embedder", "reranker"), model_plans, strict=False):
        report[name] = _model(plan, warnings)
    with _warning(warnings):
        report["index"] = _index(settings, model_plans, warnings)
    report["readers"] = readers(warnings)
    report["rendering"] = {"mode": settings.render, **installed_versions()}
    with _warning(warnings):
        if settings.render != "off":
            check_installed()
    with _warning(warnings):
        config = settings.ocr_config()
        scans = ocr.find_engine(config)
        report["ocr"] = {"use": scans.obstacle or ", ".join(config.languages)}
    report["credentials"] = {}
    with _warning(warnings):
        for credential in credentials_of(settings):
            report["credentials"][credential.origin] = ", ".join(credential.kinds())
            Session(credential).headers(f"{credential.origin}/")
    with _warning(warnings):
        rules = len(AccessRules(settings.rules_path).rules()) if settings.rules else None
        report["users"] = {"header": settings.user_header, "proxies": settings.user_proxies, "rules": rules}
        if settings.user_header and rules is None:
            warnings.append("users have no access until the file of --config has [[access]]")
    lines = []
    for name, facts in report.items():
        words = {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
        lines += [name, *(f"  {name.replace('_', ' '):<24} {word}" for name, word in words.items())]
    lines += [f"warning: {warning}" for warning in warnings] or ["no problems found"]
    return report | {"warnings": warnings}, "\n".join(lines)


def _model(plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """Return a report on a model. Adds a warning if the model is slow, not compiled yet, or cannot be compiled."""
    key = plan.package_key
    if key is None:
        warnings.append(f"engine {plan.engine} is slower than native and aot, for single queries several times slower")
    elif not is_built(plan):
        warnings.append(f"{plan.spec.name} is not compiled yet: the first run of index or serve compiles it")
    if find_compiler() is None and needs_compiler(plan):
        warnings.append("there is no C++ compiler: apt-get install g++")
    facts = {name: getattr(plan, name) for name in ("engine", "precision", "threads")}
    facts |= {"query_precision": plan.queries.precision} if not plan.config.pairs else {}
    return {"model": plan.spec.name, "folder": str(plan.spec.folder), "dimension": plan.spec.dimension} | facts


def _index(settings: Settings, model_plans: list[Plan], warnings: list[str]) -> dict[str, Any]:
    """Return a report on the index in use and its sources. Raises PilotlightError if the index cannot be opened."""
    with closing(Generation.open(published_folder(settings))) as generation:
        manifest = generation.manifest
    with _warning(warnings):
        if model_plans:
            check_fingerprint(manifest, model_plans[0].fingerprint)
    if unknown := manifest.report.get("unknown"):
        warnings.append(unknown)
    return {
        "folder": str(settings.index_dir),
        "collections": list(list_collections(settings.index_dir)),
        **facts_of(manifest),
        "sources": {source: limits_of(manifest.settings).get(source, {}) for source in manifest.sources},
        "languages": {each.language or "unknown": each.passages for each in languages_of(manifest.report)},
        "tokens": str(token_use(manifest)),
    }


def readers(warnings: list[str]) -> dict[str, str | None]:
    """Return how each security mechanism of the kernel restricts document readers. Warns if one is missing."""
    with closing(ReaderProcess()) as process:
        with _warning(warnings):
            process.start()
        confinement = {name: means or None for name, means in process.confinement.items()}
    if missing := [name for name, means in confinement.items() if means is None]:
        warnings.append(f"document readers run without {', '.join(missing)}: this kernel does not offer or allow it")
    return confinement


def _misspelled() -> list[str]:
    """Return a warning for each environment variable that looks like a misspelled setting."""
    variables = [*(one.variable for one in SETTINGS), *_OTHER_VARIABLES]
    unknown = [name for name in sorted(os.environ) if name.startswith("PILOTLIGHT_") and name not in variables]
    return [
        f"{name} is not a setting, did you mean {near}?" for name in unknown if (near := nearest(name, variables, 0.8))
    ]


@contextmanager
def _warning(warnings: list[str]) -> Iterator[None]:
    try:
        yield
    except PilotlightError as error:
        warnings.append(str(error))

"""The report on this machine, this model and this index, and on what is slow or broken about them."""

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from embedder import cpu, environment
from embedder.cache import check_private
from embedder.engines.library import find_compiler
from embedder.engines.package import needs_compiler, package_folder
from embedder.engines.plan import Plan, torch_version
from embedder.errors import PilotlightError
from embedder.model.cross_encoder import read_head
from indexer.crawl.render.installation import check_installed, describe
from indexer.crawl.sessions import check_credential
from indexer.errors import ParseError
from indexer.generation.generation import Generation
from indexer.publish.collections import list_collections
from indexer.read.ocr import installation as ocr
from indexer.read.reader_process import ReaderProcess
from indexer.sources.git.program import version as git_version
from indexer.sources.names import address_kind
from indexer.sources.objects.client import version as obstore_version
from rag.commands.published import published
from rag.commands.upkeep.users import examine_users
from rag.query.served_model import check_fingerprint
from rag.serving.store_access import TOKEN
from rag.settings import SETTINGS, Settings
from rag.settings_file import credentials_of
from rag.suggestions import nearest

PREFIX = "PILOTLIGHT_"
_OPTIONAL = {  # what sources may need: which version of it is here, and how it gets here
    "git": (git_version, "apt-get install git"),
    "obstore": (obstore_version, "pip install 'pilotlight[remote]'"),
}
_NEEDED = {"repository": "git", "bucket": "obstore"}  # by the kind of a source
_OTHERS = (cpu.ISA_VARIABLE, TOKEN, "PILOTLIGHT_KEY", "PILOTLIGHT_DOCS_PORT")  # that are no settings


def examine(settings: Settings) -> dict[str, Any]:
    """Return what is in use, JSON-ready; `warnings` says what is slow or broken and what to do about it."""
    warnings: list[str] = []
    processor = cpu.detect()
    report: dict[str, Any] = {
        "cpu": {
            "name": processor.name,
            "machine": processor.machine,
            "isa": processor.isa,
            "isa_reason": _isa_reason(processor),
            "isas": processor.isas,
            "sve_bits": processor.sve_bits or None,
            "cores": processor.cores,
            "bf16": processor.has_bf16,
        },
        "versions": {name: metadata.version(name) for name in ("pilotlight", "faiss-cpu", "tokenizers")}
        | {"torch": torch_version() or None, "python": platform.python_version()},
        "compiler": find_compiler(),
        "sources": {name: version() or None for name, (version, _) in _OPTIONAL.items()},
        "environment": {name: os.environ.get(name) for name in _variables(processor)},
    }
    warnings += processor.notes
    if processor.forced and processor.isa != (best := processor.isas[0]):
        warnings.append(f"{cpu.ISA_VARIABLE} limits this CPU to {processor.isa}; it could run {best}")
    elif not processor.has_bf16:
        warnings.append("this CPU has no fast bf16 instructions: fp32 is used; int8 is two to three times as fast")
    if processor.isas[0] in {"generic", "avx2", "neon"}:
        warnings.append(f"the instruction set is {processor.isa}: newer servers embed several times faster")
    if processor.cores < len(os.sched_getaffinity(0)):
        warnings.append(
            f"{processor.cores} physical cores are used; hyper-threads and cores beyond the CPU quota are not counted"
        )
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit() and int(threads) < processor.cores:
        warnings.append(f"OMP_NUM_THREADS={threads} limits the model to fewer than the {processor.cores} cores here")
    warnings += _misspelled(os.environ)
    plan = _embedder(settings, report, warnings)
    _reranker(settings, report, warnings)
    _index(settings, plan, report, warnings)
    _readers(report, warnings)
    _renderer(settings, report, warnings)
    _ocr(settings, report, warnings)
    _credentials(settings, report, warnings)
    report["users"] = examine_users(settings, warnings)
    return report | {"warnings": warnings}


def _variables(processor: cpu.Cpu) -> list[str]:
    forced = processor.isa if processor.forced else ""
    return [*environment.defaults(processor.machine, forced), cpu.ISA_VARIABLE]


def _isa_reason(processor: cpu.Cpu) -> str:
    if processor.forced:
        return f"forced by {cpu.ISA_VARIABLE}"
    if processor.isa == processor.isas[0]:
        return "best available"
    return f"{processor.isas[0]} is slower than fp32 here"


def _engine_reason(plan: Plan) -> str:
    if plan.config.engine != "auto":
        return "requested"
    if plan.engine == "native":
        return f"native supports {plan.spec.name}"
    return f"native does not support {plan.spec.name}: {plan.obstacle}"


def _precision_reason(plan: Plan) -> str:
    if plan.config.precision != "auto":
        return "requested"
    return (
        "this CPU has fast bf16 instructions" if plan.precision == "bf16" else "this CPU has no fast bf16 instructions"
    )


def _embedder(settings: Settings, report: dict[str, Any], warnings: list[str]) -> Plan | None:
    try:
        plan = Plan(settings.embedder_config())
        package = _package(plan)
        if settings.cache.exists():
            check_private(settings.cache)
    except PilotlightError as error:
        report["embedder"] = None
        warnings.append(str(error))
        return None
    report["embedder"] = _described(plan, package)
    _check_part(plan, package, report, warnings)
    if settings.dimensions and not plan.spec.trained_dimensions:
        warnings.append(
            f"no file of {plan.spec.name} says what --dimensions it is trained for: compare with pilotlight eval"
        )
    if plan.precision == "fp32" and report["cpu"]["bf16"]:
        warnings.append("precision fp32 is about half as fast as bf16 on this CPU")
    if plan.threads != report["cpu"]["cores"]:
        warnings.append(f"{plan.threads} threads are set for {report['cpu']['cores']} physical cores")
    return plan


def _package(plan: Plan) -> Path | None:
    return package_folder(plan.config.cache_dir, plan.package_key) if plan.package_key else None


def _described(plan: Plan, package: Path | None) -> dict[str, Any]:
    return {
        "model": plan.spec.name,
        "folder": str(plan.spec.folder),
        "dimension": plan.spec.dimension,
        "max_length": plan.spec.max_length,
        "engine": plan.engine,
        "engine_reason": _engine_reason(plan),
        "precision": plan.precision,
        "precision_reason": _precision_reason(plan),
        "threads": plan.threads,
        "package": str(package) if package and package.exists() else None,
    }


def _check_part(plan: Plan, package: Path | None, report: dict[str, Any], warnings: list[str]) -> None:
    """Add what may be wrong with how one model is run."""
    if package is None:
        warnings.append(f"engine {plan.engine} is slower than native and aot, several times for single queries")
    elif not package.exists():
        warnings.append("the model is not compiled yet: run pilotlight warm, or let the first index or serve do it")
    if report["compiler"] is None and _compiles(plan, package):
        warnings.append("there is no C++ compiler: apt-get install g++")
    if plan.precision == "bf16" and plan.engine in {"aot", "compile"} and not report["cpu"]["bf16"]:
        warnings.append("precision bf16 is emulated on this CPU, and slow: use fp32")


def _compiles(plan: Plan, package: Path | None) -> bool:
    """Return whether the next start compiles something."""
    if key := plan.package_key:
        return needs_compiler(key) and not (package and package.exists())
    return plan.engine == "compile"


def _reranker(settings: Settings, report: dict[str, Any], warnings: list[str]) -> None:
    report["reranker"] = None
    try:
        config = settings.reranker_config()
        if config is None:
            return
        plan = Plan(config)
        read_head(plan.spec)
        path = _package(plan)
    except PilotlightError as error:
        warnings.append(str(error))
        return
    described = {name: value for name, value in _described(plan, path).items() if name != "dimension"}
    report["reranker"] = described | {"depth": settings.rerank_depth}
    if path and not path.exists():
        warnings.append("the cross-encoder is not compiled yet: run pilotlight warm, or let serve do it")
    if plan.engine != "native":
        warnings.append(f"the cross-encoder runs on engine {plan.engine}, which is slower than native")


def _index(settings: Settings, plan: Plan | None, report: dict[str, Any], warnings: list[str]) -> None:
    folders = list_collections(settings.index_dir)
    report["index"] = {
        "folder": str(settings.index_dir),
        "collections": list(folders),
        "collection": settings.collection,
        "generation": None,
    }
    try:
        generation = Generation.open(published(settings))
    except PilotlightError as error:
        warnings.append(str(error))
        return
    report["index"] |= {
        "generation": generation.id,
        "created_at": generation.manifest.created_at,
        "sources": generation.manifest.sources,
        "documents": generation.document_count,
        "chunks": generation.chunk_count,
    }
    for kind in sorted({address_kind(source) or "" for source in generation.manifest.sources}):
        name = _NEEDED.get(kind)
        if name and report["sources"][name] is None:
            warnings.append(f"{name} is not installed, which reads each {kind} of this index: {_OPTIONAL[name][1]}")
    try:
        if plan:
            check_fingerprint(generation.manifest, plan.fingerprint)
    except PilotlightError as error:
        warnings.append(str(error))
    finally:
        generation.close()


def _readers(report: dict[str, Any], warnings: list[str]) -> None:
    """Return what confines the reader processes here, as one of them has found it."""
    box = ReaderProcess()
    try:
        box.start()
    except ParseError as error:
        warnings.append(f"cannot read documents: {error}")
    finally:
        report["readers"] = {name: means or None for name, means in box.confinement.items()}
        box.close()
    if missing := [name for name, means in report["readers"].items() if means is None]:
        warnings.append(f"document readers run without {', '.join(missing)}: this kernel does not offer or allow it")


def _renderer(settings: Settings, report: dict[str, Any], warnings: list[str]) -> None:
    """Add what draws pages; what is missing matters only where pages are to be drawn."""
    report["rendering"] = {"mode": settings.render, **describe()}
    if settings.render == "off":
        return
    try:
        check_installed()
    except PilotlightError as error:
        warnings.append(str(error))
        return
    if os.geteuid() == 0:
        warnings.append("Chromium has no sandbox of its own as root: build as another user to draw pages of strangers")


def _ocr(settings: Settings, report: dict[str, Any], warnings: list[str]) -> None:
    """Add what scans are read with, and why they are not."""
    installed = ocr.is_installed()
    report["ocr"] = {
        "tesserocr": metadata.version("tesserocr") if installed else None,
        "data": ocr.languages() if installed else (),
        "use": None,
    }
    try:
        found = ocr.find(settings.ocr_config())
    except PilotlightError as error:
        warnings.append(str(error))
        return
    report["ocr"]["use"] = found.obstacle or ", ".join(found.config.languages)
    if installed and found.obstacle and settings.ocr != "off":
        warnings.append(found.obstacle)


def _credentials(settings: Settings, report: dict[str, Any], warnings: list[str]) -> None:
    """Add what origins are asked with, and what of it cannot be read by this user; no secret is shown."""
    report["credentials"] = {}
    try:
        described = credentials_of(settings)
    except PilotlightError as error:
        warnings.append(str(error))
        return
    for credential in described:
        report["credentials"][credential.origin] = ", ".join(credential.kinds()) or "cookies that it sets"
        try:
            check_credential(credential)
        except PilotlightError as error:
            warnings.append(str(error))


_LABELS = {
    "isa": "instruction set",
    "isa_reason": "why this one",
    "isas": "supported",
    "sve_bits": "SVE bits",
    "bf16": "fast bf16",
    "max_length": "longest input, tokens",
    "engine_reason": "why this engine",
    "precision_reason": "why this precision",
    "package": "compiled package",
    "created_at": "built at",
    "readers": "document readers",
    "sources": "for sources",
    "ocr": "OCR",
    "data": "languages with data",
    "use": "scans are read",
    "cpu": "CPU",
    "seccomp": "system calls",
    "landlock": "Landlock",
    "compiler": "C++ compiler",
}


def _misspelled(environ: Iterable[str]) -> list[str]:
    """Variables that nothing reads and that are nearly one of ours; others may be somebody else's."""
    known = [*(setting.variable for setting in SETTINGS), *_OTHERS]
    ends = {name.removeprefix(PREFIX): name for name in known}  # what all begin with would make all of them near
    others = [name for name in sorted(environ) if name.startswith(PREFIX) and name not in known]
    meant = [(name, nearest(name.removeprefix(PREFIX), ends)) for name in others]
    return [f"nothing reads {name}, did you mean {ends[near]}?" for name, near in meant if near]


def as_text(report: dict[str, Any]) -> str:
    """Lay the report out for a terminal."""
    lines = []
    for part, value in report.items():
        if part == "warnings":
            continue
        if isinstance(value, dict) and value:
            lines += [_label(part), *(f"  {_label(name):<24} {_word(v)}" for name, v in value.items())]
        else:
            lines.append(f"{_label(part):<26} {_word(value)}")
    lines += [f"warning: {warning}" for warning in report["warnings"]] or ["no problems found"]
    return "\n".join(lines)


def _label(name: str) -> str:
    return _LABELS.get(name) or (name if name.isupper() else name.replace("_", " "))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if value in (None, "", {}):
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)

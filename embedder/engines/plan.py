"""Choose the engine, precision and number of threads for a model on this machine. Does not import torch."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder import cpu
from embedder.config import ENGINES, PRECISIONS, QUERY_PRECISIONS, EmbedderConfig, locate
from embedder.engines import native as kernel
from embedder.engines.library import architecture, has_wheel_library, layout_of_weights, sources_digest
from embedder.errors import EmbedderError, PrecisionError, TorchMissing
from embedder.model.spec import ModelSpec, read_cross_encoder, read_spec

RECIPE = 10  # increment if packages change; changes of C++ sources are detected by their hash
AOT_FILE = "model.pt2"
MAX_MEASURED_WIDTH = 384  # dimensions; the accuracy of int8 queries was measured up to this width
_PROMPTS = ("query_prompt", "document_prompt")


@dataclass(frozen=True, slots=True)
class PackageKey:
    """Everything that determines the content of a package. A package is a compiled model or the native library."""

    model: str
    engine: str
    fingerprint: str  # SHA-256 of the plan's fingerprint without prompts
    precision: str
    isa: str
    torch: str
    threads: int
    sources: str = ""  # SHA-256 of the library's C++ sources, or the layout of a model's weights
    recipe: int = RECIPE

    @property
    def folder_name(self) -> str:
        """Readable and unique name of the package's folder."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{Path(self.model).name}-{self.engine}-{self.precision}-{self.isa}-{digest[:12]}"


class Plan:
    """A model's description, and the engine, precision, threads and package with which this machine runs the model.

    Raises ModelError, PrecisionError, TorchMissing or EmbedderError if this machine cannot run the model.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        if config.engine not in ENGINES:
            raise EmbedderError(f"unknown engine {config.engine!r}: choose one of {', '.join(ENGINES)}")
        self.config = config
        self.precision = resolve_precision(config.precision)
        self.spec: ModelSpec = _read(config)
        self.threads = config.threads or cpu.detect().cores
        self.engine = self._engine()
        if self.precision == "int8" and self.engine != "native":
            why = f", which does not run {self.spec.name}, as {self.obstacle}" if self.obstacle else ""
            raise PrecisionError(f"int8 needs the engine native{why}: choose fp32 or bf16, and query precision same")
        self.queries = self._plan_queries()

    @property
    def isa(self) -> str:
        """The instruction set that the engine uses."""
        return cpu.detect().isa if self.engine == "native" else cpu.detect().torch_isa

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of everything that affects vectors. Vectors of plans with equal fingerprints are comparable."""
        return self.spec.fingerprint | {"precision": self.precision}

    @property
    def package_key(self) -> PackageKey | None:
        """Key of the model's package on this machine, or None if the engine needs no package."""
        if self.engine not in {"native", "aot"}:
            return None
        native = self.engine == "native"
        fields = {name: value for name, value in self.fingerprint.items() if name not in _PROMPTS}
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        return PackageKey(
            model=self.spec.name,
            fingerprint=digest,
            precision=self.precision,
            engine=self.engine,
            isa=architecture() if native else self.isa,
            torch="" if native else torch_version(),
            threads=0 if native else self.threads,
            sources=layout_of_weights() if native else "",
        )

    @property
    def library_key(self) -> PackageKey | None:
        """Key of the native library's package, or None if the wheel has the library or the engine does not need it."""
        if self.engine != "native" or has_wheel_library():
            return None
        return PackageKey("library", "native", "", "all", self.isa, torch="", threads=0, sources=sources_digest())

    @cached_property
    def obstacle(self) -> str:
        """The reason why the native engine cannot run the model on this machine, or "" if it can."""
        return kernel.find_obstacle(self.spec, self.precision, cpu.detect().isa)

    def _plan_queries(self) -> "Plan":
        """Return the plan for queries: this plan, or a copy with the precision int8."""
        query_precision, shape = self.config.query_precision, self.spec.shape
        if query_precision not in QUERY_PRECISIONS:
            raise PrecisionError(f"unknown query precision {query_precision!r}: choose {' or '.join(QUERY_PRECISIONS)}")
        is_measured = shape is not None and shape.hidden <= MAX_MEASURED_WIDTH and not shape.modern
        is_fast = self.engine == "native" and cpu.detect().has_int8
        if (
            self.precision == "int8"
            or query_precision == "same"
            or (query_precision == "auto" and not (is_measured and is_fast))
        ):
            return self
        return Plan(replace(self.config, precision="int8", query_precision="same"))

    def _engine(self) -> str:
        obstacle = self.obstacle
        if self.config.engine == "native" and obstacle:
            raise EmbedderError(
                f"the native engine does not run {self.spec.name} in {self.precision} on {cpu.detect().isa}, as "
                f"{obstacle}: choose the engine aot"
            )
        engine = self.config.engine
        if engine == "auto":
            engine = "aot" if obstacle else "native"
        if engine != "native" and not torch_version():
            why = f"the native engine does not run {self.spec.name}, as {obstacle}, and " if obstacle else ""
            other = "choose another model" if obstacle else "choose the engine native"
            raise TorchMissing(
                f"{why}engine {engine} needs PyTorch, which is not installed: pip install pilotlight installs it; "
                f"or {other}"
            )
        return engine


def _read(config: EmbedderConfig) -> ModelSpec:
    """Describe the model of a config: a cross-encoder if `pairs` is true, otherwise an embedding model."""
    folder = locate(config.model, config.revision)
    if config.pairs:
        return read_cross_encoder(folder)
    spec = read_spec(folder)
    return replace(
        spec,
        query_prompt=config.query_prompt or spec.query_prompt,
        document_prompt=config.document_prompt or spec.document_prompt,
    )


def torch_version() -> str:
    """Return the version of PyTorch without importing it, or "" if PyTorch is not installed."""
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""


def resolve_precision(precision: str) -> str:
    """Resolve "auto" to bf16 if the processor supports it, else to fp32. Raises PrecisionError for unknown names."""
    if precision not in PRECISIONS:
        raise PrecisionError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if precision != "auto":
        return precision
    return "bf16" if cpu.detect().has_bf16 else "fp32"

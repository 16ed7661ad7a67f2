"""The models in memory: loaded when a generation first needs them, released when none does."""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.engines.plan import Plan
from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder, Role
from indexer.generation.manifest import Manifest, differing_fields
from indexer.memory import CGROUP
from rag.errors import FingerprintMismatch, ModelMissing, ModelTooLarge, ModelUnusable
from rag.models import known_models, memory_room
from rag.models.known_models import KnownModel
from rag.query.batcher import QueryBatcher
from rag.query.fair_share import FairShare
from rag.query.retriever import mismatch
from rag.settings import Settings

RETRY_SECONDS = 30.0  # until a model that could not be loaded is tried again

MakeEmbedder = Callable[[Settings], Embedder]

log = logging.getLogger("pilotlight")


class Embedding(NamedTuple):
    """Texts as a model has embedded them."""

    vectors: npt.NDArray[np.float32]  # (n, dim)
    tokens: int  # of all texts, whatever the model's length
    model: str  # name of it


class EmbeddedQuery(QueryTokens):
    """A query as a model has embedded it: of use to generations of that model alone."""

    embedder: Embedder


class LoadedModel:
    """A model in memory, and the queues that all who use it share."""

    def __init__(self, settings: Settings, embedder: Embedder, on_run: Callable[[int, int], None]) -> None:
        self.settings = settings
        self.embedder = embedder
        self.batcher = QueryBatcher(embedder, on_batch=on_run)
        self.share = FairShare(self.batcher)
        plan: Plan | None = getattr(embedder, "plan", None)
        self.engine = plan.engine if plan else settings.engine
        self.precision = str(embedder.fingerprint.get("precision") or settings.precision)
        self.bytes = known_models.bytes_of(plan) if plan else 0

    def warm(self) -> None:
        """Run it in each way that queries do: its pages are read and its kernels chosen before a user waits for it."""
        queries = "warm", "a longer query that fills a second shape of the model's input"
        for query in queries:
            self.embedder.encode([query], role="query")
        self.embedder.encode(queries, role="query")

    def embed(self, texts: Sequence[str], role: Role, name: str) -> Embedding:
        """Embed texts, behind all queries and in turn with others who do. Raises DeadlinePassed."""
        vectors = self.share.encode(texts, role)
        return Embedding(vectors, sum(self.embedder.count_tokens(texts, role=role)), name)

    def embed_queries(self, queries: Sequence[str]) -> list[EmbeddedQuery]:
        """Embed queries, with their tokens. Raises as `embed` does."""
        made = [EmbeddedQuery(*both) for both in self.share.encode_queries(queries)]
        for each in made:
            each.embedder = self.embedder
        return made


class LoadedModels:
    """The models of one process, by the fingerprints of what it serves. One thread loads and releases them."""

    def __init__(
        self, settings: Settings, make_embedder: MakeEmbedder, on_run: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        self.all: tuple[LoadedModel, ...] = ()  # replaced as a whole, never changed
        self._settings = settings
        self._make_embedder = make_embedder
        self._on_run = on_run
        self._own: dict[str, Any] | None = None  # fingerprint of the model of the settings, once it is known
        self._failed: dict[str, tuple[float, PilotlightError]] = {}  # by digest of a fingerprint: when, and why

    @property
    def default(self) -> LoadedModel | None:
        """The model of the settings; where that is not in memory, the one that was loaded first."""
        loaded = self.all
        return next((model for model in loaded if model.settings is self._settings), loaded[0] if loaded else None)

    def names(self) -> dict[str, LoadedModel]:
        """Return the models by their names, the default one first; a second one of a name has its digest behind it."""
        first, found = self.default, dict[str, LoadedModel]()
        for model in sorted(self.all, key=lambda model: model is not first):
            name = model.settings.model
            found[f"{name}#{known_models.short(model.embedder.fingerprint)}" if name in found else name] = model
        return found

    def named(self, name: str) -> tuple[str, LoadedModel]:
        """Return a model in memory with its name. Raises ModelMissing."""
        names = self.names()
        if name in names:
            return name, names[name]
        for model in names.values():
            if name == f"{model.settings.model}#{known_models.short(model.embedder.fingerprint)}":
                return name, model
        raise ModelMissing(name, names)

    def loaded(self, manifest: Manifest) -> LoadedModel | None:
        """Return the model that made the vectors of a generation, if it is in memory."""
        return next((m for m in self.all if not differing_fields(m.embedder.fingerprint, manifest.fingerprint)), None)

    def may_load(self, manifest: Manifest) -> bool:
        """Return whether `get`, which has failed for a generation, is worth another try."""
        if self.loaded(manifest):
            return True
        when, _ = self._failed.get(known_models.digest(manifest.fingerprint), (0.0, None))
        is_due = time.monotonic() >= when + RETRY_SECONDS
        return is_due and (self._own is None or known_models.find(self._settings, manifest) is not None)

    def get(self, manifest: Manifest) -> LoadedModel:
        """Return the model that made the vectors of a generation, loaded and warm.

        Raises:
            FingerprintMismatch: it is not known here which model that is.
            ModelTooLarge: there is no room for it beside the others.
            ModelUnusable: it cannot be loaded.
        """
        if model := self.loaded(manifest):
            return model
        key = known_models.digest(manifest.fingerprint)
        when, error = self._failed.get(key, (0.0, None))
        if error and time.monotonic() < when + RETRY_SECONDS:
            raise error
        known = known_models.find(self._settings, manifest)
        if known is None and self._own is not None:
            raise unknown(manifest, self._own)
        try:
            model = self._load(known)
            if differing_fields(model.embedder.fingerprint, manifest.fingerprint):
                raise unknown(manifest, model.embedder.fingerprint)
        except FingerprintMismatch:
            raise
        except PilotlightError as wrong:
            self._failed[key] = (time.monotonic(), wrong)
            raise
        self._failed.pop(key, None)
        self.all = (*self.all, model)
        return model

    def keep(self, used: Collection[LoadedModel]) -> bool:
        """Release the models that are not among these, unless none is; queries under way hold what they need.

        Return whether there were any.
        """
        kept = tuple(model for model in self.all if model in used)
        if not kept or len(kept) == len(self.all):
            return False
        for model in self.all:
            if model not in kept:
                log.info("releasing model %s (%s): no collection needs it", model.settings.model, model.precision)
        self.all = kept
        return True

    def _load(self, known: KnownModel | None) -> LoadedModel:
        """Load a model; without one, that of the settings, as only its fingerprint says whether it is the right one."""
        settings = known.settings(self._settings) if known else self._settings
        is_second = bool(self.all)
        try:
            with _one_at_a_time(self._settings) if is_second else nullcontext():
                if known and is_second:
                    log.info("loading model %s (%s) beside %s", known.name, known.values["precision"], self._used())
                    self._check_room(known)
                model = LoadedModel(settings, self._make_embedder(settings), self._on_run)
                model.warm()
        except ModelTooLarge:
            raise
        except PilotlightError as error:
            raise error if settings is self._settings else _unusable(settings, str(error)) from error
        except MemoryError as error:
            raise ModelTooLarge(f"there is no memory for model {settings.model}: allow more") from error
        except OSError as error:
            raise _unusable(settings, error.strerror or str(error)) from error
        if settings is self._settings:
            self._own = model.embedder.fingerprint
        return model

    def _used(self) -> str:
        return ", ".join(f"{model.settings.model} ({model.precision})" for model in self.all)

    def _check_room(self, known: KnownModel) -> None:
        """Raise ModelTooLarge where a model does not fit beside those in memory, in all processes of the server."""
        workers = max(1, self._settings.workers)
        weights = known.bytes if known.is_mapped else known.bytes * workers
        names, used = self._used(), sum(model.bytes for model in self.all)
        remedy = "allow more, or index again with a smaller model, or in a lower precision"
        if (most := self._settings.model_memory * 1_000_000) and used + weights > most:
            raise ModelTooLarge(
                f"model {known.name} takes {_mb(weights)} MB beside the {_mb(used)} MB of {names}, and model_memory "
                f"allows {_mb(most)} MB: {remedy}"
            )
        free, limit = memory_room.room()
        if limit == CGROUP:  # where mapped weights do not count as used
            free = max(0, free - used)
        if (needed := weights + memory_room.RESERVE * workers) > free:
            raise ModelTooLarge(
                f"model {known.name} needs {_mb(needed)} MB of memory beside {names}, and {limit} leaves "
                f"{_mb(free)} MB: {remedy}"
            )


def unknown(manifest: Manifest, fingerprint: dict[str, Any]) -> FingerprintMismatch:
    """Return the error for a generation of a model that is not known here."""
    error = mismatch(manifest, fingerprint)
    return FingerprintMismatch(
        f"{error}; or, to serve it beside others, make this machine ready for its model: "
        f"{known_models.how_to_prepare(manifest)}"
    )


@contextmanager
def _one_at_a_time(settings: Settings) -> Iterator[None]:
    """Let one process of a server load at a time: each sees what memory is left, and the others answer meanwhile."""
    try:
        folder = os.open(settings.cache / known_models.FOLDER, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # there is none
        yield
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _unusable(settings: Settings, why: str) -> ModelUnusable:
    return ModelUnusable(f"model {settings.model} cannot be loaded: {why}")


def _mb(number: int) -> str:
    return f"{number / 1_000_000:,.0f}"

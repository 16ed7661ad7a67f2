"""The models that this machine is ready for: whatever index, warm or serve has prepared with the same cache folder.

A server may be made to load a model by the index that it serves, and an index may come from anywhere. So a manifest
never says where a model is loaded from: it has a fingerprint, and the place is found in a record beside the compiled
packages, in the folder that only this user can write.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedder.cache import check_private, open_private
from embedder.engines.package import package_folder
from embedder.engines.plan import Plan, resolve_precision
from embedder.errors import CacheError, PilotlightError
from embedder.model.spec import PACKAGED
from indexer.generation.manifest import Manifest
from rag.errors import ModelMissing
from rag.settings import MODEL_FIELDS, Settings

FOLDER = "models"
_NAME = ".json"
_PLACES = ("model", "revision", "query_model", "query_revision")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that was prepared here."""

    values: Mapping[str, Any]  # of the settings `MODEL_FIELDS`, and `engine`, none of them auto, and `threads`
    fingerprint: Mapping[str, Any]
    bytes: int  # of memory that its weights take

    @property
    def name(self) -> str:
        """Name or folder, as the settings had it."""
        return str(self.values["model"])

    def settings(self, own: Settings) -> Settings:
        """Return settings of a process with this model in place of its own."""
        if is_own(self.values, own):
            return own
        # packages of other engines are compiled for a number of threads
        return replace(own, **(dict(self.values) | ({"threads": own.threads} if self.is_mapped else {})))

    @property
    def is_mapped(self) -> bool:
        """Whether all processes that load it share one copy of its weights."""
        return str(self.values["engine"]) == "native"


def remember(settings: Settings, plan: Plan) -> None:
    """Keep a record of a model that was prepared with these settings. A cache that cannot be written stays as it is."""
    values = settings.model_values() | {"precision": plan.precision}
    values |= {"engine": plan.engine, "threads": settings.threads}
    record = {"settings": values, "fingerprint": plan.fingerprint, "bytes": bytes_of(plan)}
    path = _path(settings.cache, plan.fingerprint)
    known = _read(path)
    if known and (known.values == values or _is_there(known.values)):
        return  # two folders may hold one model; the first is as good
    with suppress(OSError):  # baked into an image, as a rule: what it has was recorded when it was made
        open_private(settings.cache)
        open_private(path.parent)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(record), encoding="utf-8")
        new.chmod(0o600)
        os.replace(new, path)


def known_models(settings: Settings) -> Iterator[KnownModel]:
    """Yield what may be loaded besides the model of the settings, in no order."""
    if settings.other_models == "auto":
        with suppress(FileNotFoundError):
            for path in sorted((settings.cache / FOLDER).iterdir()):
                if path.suffix == _NAME and (found := _read(path)):
                    yield found


def find(settings: Settings, manifest: Manifest) -> KnownModel | None:
    """Return the model that made the vectors of a generation; None where that is not known here.

    That may be the model of the settings all the same: for one that was never prepared here, only its fingerprint says.
    """
    if settings.other_models != "auto":
        return None
    return _read(_path(settings.cache, manifest.fingerprint)) or _trusted(settings, manifest)


def named(settings: Settings, name: str) -> Settings:
    """Return the settings with the model of this name. Raises ModelMissing, naming those that are known."""
    if name == settings.model:
        return settings
    names = {settings.model: settings}
    for known in known_models(settings):
        for each in (f"{known.name}#{short(known.fingerprint)}", known.name):
            names.setdefault(each, known.settings(settings))
    if name not in names:
        raise ModelMissing(name, names)
    return names[name]


def is_own(values: Mapping[str, Any], settings: Settings) -> bool:
    """Return whether values of settings are of the model that the settings name."""
    own = settings.model_values() | {"precision": resolve_precision(settings.precision)}
    return all(own[name] == values.get(name) for name in own)


def digest(fingerprint: Mapping[str, Any]) -> str:
    """Return a name for a fingerprint, 64 hex digits."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()


def short(fingerprint: Mapping[str, Any]) -> str:
    """Return what tells models of one name apart."""
    return digest(fingerprint)[:8]


def how_to_prepare(manifest: Manifest) -> str:
    """Return the command that makes a machine ready for the model of a generation, as far as the generation says it."""
    made = manifest.settings.get("model")
    if not isinstance(made, dict):
        return "pilotlight warm, with the settings that it was built with"
    made = made | {"precision": manifest.fingerprint.get("precision", "")}
    given = [f"--{name.replace('_', '-')} {_quoted(made[name])}" for name in MODEL_FIELDS if made.get(name)]
    return " ".join(["pilotlight warm", *given])


def bytes_of(plan: Plan) -> int:
    """Return the bytes of a model's weights in memory: of its package where that is mapped, else of its files."""
    total = 0
    for part in plan.parts:
        key = part.package_key
        folder = package_folder(plan.config.cache_dir, key) if key and part.engine == "native" else None
        files = list(folder.iterdir()) if folder and folder.is_dir() else part.spec.weights
        total += sum(path.stat().st_size for path in files)
    return total


def _trusted(settings: Settings, manifest: Manifest) -> KnownModel | None:
    """What a manifest says of its model, if that is at a place that the settings or the package name."""
    made = manifest.settings.get("model")
    if not isinstance(made, dict) or made.keys() != set(MODEL_FIELDS):
        return None
    own = settings.model_values()
    places = {name: made[name] for name in _PLACES}
    packaged = dict.fromkeys(_PLACES, "") | {"model": PACKAGED}
    if places not in (packaged, {name: own[name] for name in _PLACES}):
        return None
    precision = str(manifest.fingerprint.get("precision", ""))
    try:
        wanted = {name: type(own[name])(made[name]) for name in MODEL_FIELDS} | {"precision": precision}
        plan = Plan(replace(settings, **wanted, engine="auto", threads=0).embedder_config())
        if plan.fingerprint != manifest.fingerprint:
            return None
        return KnownModel(wanted | {"engine": plan.engine, "threads": 0}, plan.fingerprint, bytes_of(plan))
    except (PilotlightError, ValueError, TypeError):  # not to be had here, or not what it says
        return None


def _is_there(values: Mapping[str, Any]) -> bool:
    model = str(values["model"])
    return not os.path.isabs(model) or os.path.isdir(model)


def _path(cache: Path, fingerprint: Mapping[str, Any]) -> Path:
    return cache / FOLDER / f"{digest(fingerprint)[:32]}{_NAME}"


def _read(path: Path) -> KnownModel | None:
    """Return a record, None where there is none; one that others could have written is none."""
    try:
        check_private(path.parent)
        check_private(path)
        record = json.loads(path.read_text(encoding="utf-8"))
        known = KnownModel(dict(record["settings"]), dict(record["fingerprint"]), int(record["bytes"]))
        is_whole = known.values.keys() == {*MODEL_FIELDS, "engine", "threads"}
    except (OSError, CacheError, ValueError, KeyError, TypeError):
        return None
    return known if is_whole and path == _path(path.parent.parent, known.fingerprint) else None


def _quoted(value: object) -> str:
    text = str(value)
    return text if text.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum() else f"{text!r}"

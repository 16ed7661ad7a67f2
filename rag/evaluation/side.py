"""One side of a comparison, as it is written: a generation of the index, or settings, or both.

`live`, `20261124T120000-0a1b2c`, `live,boost=source=wiki*1.2`, `model=/models/e5,precision=int8`, `mode=lexical`.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from indexer.generation.manifest import is_generation_id
from rag.declaration import read_value
from rag.errors import SettingsError
from rag.query.options import MODES
from rag.query.scoring.fusion import FUSIONS
from rag.settings import BY_NAME, SETTINGS, Settings
from rag.suggestions import did_you_mean

LIVE = "live"

_NEXT = re.compile(r",(?=[a-z_]+=)")  # what a value may not hold: all other commas belong to it
_OPTIONS: dict[str, tuple[type, tuple[str, ...]]] = {
    "mode": (str, MODES),
    "fusion": (str, FUSIONS),
    "rerank": (bool, ()),
}
_RERANK = tuple(setting.name for setting in SETTINGS if setting.group == "rerank")
_MODEL = tuple(setting.name for setting in SETTINGS if setting.group == "embedder" and setting.name != "cache_dir")
_OF_INDEX = ("mode", "rerank", "boost", "synonyms", *_RERANK)
_OF_CORPUS = ("mode", "fusion", "rerank", "tokens", *_MODEL, *_RERANK)


@dataclass(frozen=True, slots=True)
class Side:
    """What is searched, and how."""

    text: str  # as it was written
    generation: str  # its id, or `LIVE`; empty: the documents of the dataset are searched
    settings: Settings
    mode: str = MODES[0]
    fusion: str = FUSIONS[0]
    rerank: bool = False


def read_side(text: str, settings: Settings, name: str) -> Side:
    """Read a side that is called by a name, such as A. Raises SettingsError saying what it can be."""
    first, *rest = _NEXT.split(text)
    is_index = first == LIVE or is_generation_id(first)
    pairs = rest if is_index else [first, *rest]
    allowed = _OF_INDEX if is_index else _OF_CORPUS
    given: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"{name} is {LIVE}, the id of a generation, or NAME=VALUE,…; not {text[:80]!r}")
        if key not in allowed:
            raise SettingsError(f"{name} cannot have {key[:40]!r}{_remedy(key, allowed, is_index=is_index)}")
        given[key] = _read(key, value, f"{key} in {name}")
    options = {key: given.pop(key) for key in _OPTIONS if key in given}
    side = Side(text, first if is_index else "", replace(settings, **given), **options)
    if side.rerank and not side.settings.rerank_model:
        raise SettingsError(f"rerank in {name} needs a cross-encoder: set --rerank-model")
    return side


def _read(key: str, value: str, origin: str) -> Any:
    if key in _OPTIONS:
        kind, choices = _OPTIONS[key]
        return read_value(value, origin, kind, choices)
    return BY_NAME[key].read(value, origin)


def _remedy(key: str, allowed: tuple[str, ...], *, is_index: bool) -> str:
    if is_index and key in _MODEL:
        return ": a generation is searched with the model that built it; build one with another, or compare settings"
    if not is_index and key in _OF_INDEX:
        return f": it concerns an index; write {LIVE},{key}=…"
    return did_you_mean(key, allowed) or f"; it can have {', '.join(allowed)}"

"""Says whether pictures can be read on this machine, and what is missing; loads nothing of it."""

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from indexer.config import OcrConfig
from indexer.errors import ConfigError
from indexer.read.formats import OCR_OFF

EXTRA = "pip install 'pilotlight[ocr]'"
_SUFFIX = ".traineddata"
_SYSTEM = ("/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tesseract-ocr/4.00/tessdata", "/usr/share/tessdata")


@dataclass(frozen=True, slots=True)
class Ocr:
    """OCR as one build has it, or why it has none."""

    config: OcrConfig
    engine: str = ""  # what reader processes load, see `indexer.read.ocr.scans.load`; empty where there is none
    obstacle: str = ""  # why there is none, and what to do about it


NO_OCR = Ocr(OcrConfig(mode="off"), obstacle=OCR_OFF)


def find(config: OcrConfig) -> Ocr:
    """Return what a build can use. Raises ConfigError if it is told to use what is not there."""
    if config.mode == "off":
        return Ocr(config, obstacle=OCR_OFF)
    folder, obstacle = "", ""
    if not is_installed():
        obstacle = f"OCR needs {EXTRA}"
    else:
        folder, missing = _folder(config.languages)
        if missing:
            obstacle = f"OCR has no data for {', '.join(missing)}: {_remedy(missing)}"
    if not obstacle:
        return Ocr(config, engine=f"{folder}\n{'+'.join(config.languages)}")
    if config.mode == "on":
        raise ConfigError(f"ocr is on, but {obstacle}")
    return Ocr(config, obstacle=obstacle)


def is_installed() -> bool:
    """Return whether the libraries are there."""
    return all(find_spec(name) is not None for name in ("tesserocr", "PIL"))


def languages() -> tuple[str, ...]:
    """Return the languages of which there is data, in the folder that has most of them."""
    found = [tuple(sorted(path.stem for path in folder.glob(f"*{_SUFFIX}") if path.stem != "osd")) for folder in _all()]
    return max(found, key=len, default=())


def _folder(wanted: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the first folder with data of all languages, or the one with most of them and what it misses."""
    best: tuple[str, list[str]] = ("", list(wanted))
    for folder in _all():
        missing = [name for name in wanted if not (folder / f"{name}{_SUFFIX}").is_file()]
        if not missing:
            return str(folder), []
        if len(missing) < len(best[1]):
            best = (str(folder), missing)
    return best


def _all() -> Iterator[Path]:
    """Folders of language data, the first to be looked at first; Tesseract reads all languages from one."""
    if own := os.environ.get("TESSDATA_PREFIX"):
        yield Path(own)
    yield Path(sysconfig.get_path("data")) / "share" / "tessdata"
    yield from map(Path, _SYSTEM)


def _remedy(missing: list[str]) -> str:
    packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing)
    return f"apt-get install {packages}, or name a folder that has all languages in TESSDATA_PREFIX"

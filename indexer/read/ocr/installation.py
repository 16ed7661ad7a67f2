"""Say whether pictures can be read on this machine, and what is missing; loads nothing of it."""

import os
import sysconfig
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
        return NO_OCR
    obstacle = "" if is_installed() else f"OCR needs {EXTRA}"
    if not obstacle:
        missing = {
            folder: [name for name in config.languages if not (folder / f"{name}{_SUFFIX}").is_file()]
            for folder in _folders()
        }
        best = min(missing, key=lambda folder: len(missing[folder]))  # the first of them
        if not missing[best]:
            return Ocr(config, engine=f"{best}\n{'+'.join(config.languages)}")
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing[best])
        remedy = f"apt-get install {packages}, or name a folder that has all languages in TESSDATA_PREFIX"
        obstacle = f"OCR has no data for {', '.join(missing[best])}: {remedy}"
    if config.mode == "on":
        raise ConfigError(f"ocr is on, but {obstacle}")
    return Ocr(config, obstacle=obstacle)


def is_installed() -> bool:
    """Return whether the libraries are there."""
    return all(find_spec(name) is not None for name in ("tesserocr", "PIL"))


def languages() -> tuple[str, ...]:
    """Return the languages of which there is data, in the folder that has most of them."""
    names = [sorted({path.stem for path in folder.glob(f"*{_SUFFIX}")} - {"osd"}) for folder in _folders()]
    most = max(names, key=len)
    return tuple(most)


def _folders() -> list[Path]:
    """Return the folders that may have data, the first to be looked at first; all languages are read from one."""
    own = os.environ.get("TESSDATA_PREFIX")
    return list(map(Path, [*([own] if own else []), f"{sysconfig.get_path('data')}/share/tessdata", *_SYSTEM]))

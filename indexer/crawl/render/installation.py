"""What drawing pages needs on this machine: the package that drives the browser, and the browser."""

import os
import shutil
from importlib import metadata
from importlib.util import find_spec

from indexer.errors import RendererMissing

_PACKAGE = "playwright"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def find_chromium() -> str:
    """Return the path of the browser. Raises RendererMissing."""
    found = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        raise RendererMissing("drawing pages needs Chromium: apt-get install chromium, or set render to off")
    return os.path.abspath(found)


def check_installed() -> None:
    """Raise RendererMissing unless pages can be drawn; nothing is loaded or started for it."""
    if find_spec(_PACKAGE) is None:
        raise RendererMissing("drawing pages needs a package: pip install 'pilotlight[render]', or set render to off")
    find_chromium()


def describe() -> dict[str, str | None]:
    """Return what is there, by name; None for what is not."""
    try:
        program: str | None = find_chromium()
    except RendererMissing:
        program = None
    package = metadata.version(_PACKAGE) if find_spec(_PACKAGE) is not None else None
    sandbox = "none, as root" if os.geteuid() == 0 else "Chromium's own"
    return {"playwright": package, "chromium": program, "sandbox": sandbox if program else None}

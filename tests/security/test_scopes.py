"""Ways out of a folder that is read: what is in it is exchanged for links meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.records import Failure, Page, PageRecord, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path

SECRET = "secret"
Item = Page | PageRecord | Skip | Failure


def swap(path: Path, target: Path) -> None:
    """Put a link in the place of a folder or file."""
    path.rename(path.with_name(f"{path.name}.was"))
    path.symlink_to(target)


# What is done once the folder is listed and its first file is read.
SWAPS: dict[str, Callable[[Path, Path], None]] = {
    "a folder for a link": lambda docs, outside: swap(docs / "b", outside),
    "a folder for a relative link": lambda docs, outside: swap(docs / "b", Path("../outside")),
    "a folder above it": lambda docs, outside: swap(docs / "c", outside / "up"),
    "the root": lambda docs, outside: swap(docs, outside.parent / "other"),
    "a file": lambda docs, outside: swap(docs / "b" / "page.md", outside / "page.md"),
    "a file for a link to itself": lambda docs, outside: swap(docs / "b" / "page.md", Path("page.md")),
    "a folder for a link to /proc": lambda docs, outside: swap(docs / "b", Path("/proc/self/root") / outside),
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder to read, and others beside it that hold a secret under the same names."""
    for folder in ("docs/b", "docs/c/d", "outside/up/d", "other/b", "other/c/d"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("docs/a.md", "docs/b/page.md", "docs/c/d/page.md"):
        (tmp_path / name).write_text(f"healthy {name}")
    for name in ("outside/page.md", "outside/up/d/page.md", "other/b/page.md", "other/c/d/page.md", "other/a.md"):
        (tmp_path / name).write_text(SECRET)
    return tmp_path / "docs"


def bodies(items: list[Item]) -> list[bytes]:
    return [item.body for item in items if isinstance(item, Page)]


@pytest.mark.parametrize("name", SWAPS)
def test_nothing_outside_is_read_whatever_is_swapped_after_the_listing(name: str, docs: Path, tmp_path: Path) -> None:
    items = read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000)))
    first = next(items)
    SWAPS[name](docs, tmp_path / "outside")
    rest = list(items)
    read = bodies([first, *rest])
    assert SECRET.encode() not in read
    assert b"healthy docs/a.md" in read
    assert len(read) + sum(isinstance(item, Failure) for item in rest) == 3, "what is not read is named"


@pytest.mark.parametrize("name", SWAPS)
def test_nothing_outside_is_listed_whatever_is_swapped_during_the_listing(
    name: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_swapped = os.listdir, False

    def listed(handle: int) -> list[str]:
        nonlocal is_swapped
        names = real(handle)
        if not is_swapped:
            is_swapped = True
            SWAPS[name](docs, tmp_path / "outside")
        return names

    monkeypatch.setattr(os, "listdir", listed)
    items = list(read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000))))
    assert is_swapped
    assert SECRET.encode() not in bodies(items)


def test_no_descriptor_is_left_open(docs: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert len(bodies(list(read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000)))))) == 3
    assert len(os.listdir("/proc/self/fd")) == before

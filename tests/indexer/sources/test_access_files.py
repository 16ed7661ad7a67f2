"""Lists beside files and folders, from the disk into an index."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.pipeline.progress import BuildReport
from indexer.records import Failure, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path
from indexer.sources.stored_files import StoredFile, StoredFiles
from tests.building import build_index
from tests.rag.conftest import Site


def lists(source: Path) -> dict[str, tuple[str, ...] | None]:
    """Who may read each page of a folder, by its path."""
    found = read_path(SourceContext(str(source), CrawlLimits(max_bytes=100_000)))
    return {
        page.url.removeprefix(source.as_uri() + "/"): page.sender_facts.access
        for page in found
        if isinstance(page, Page)
    }


def troubles(source: Path) -> list[str]:
    found = read_path(SourceContext(str(source), CrawlLimits(max_bytes=100_000)))
    return [f"{Path(item.url).name}: {item.reason}" for item in found if isinstance(item, Failure)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.md", "b.md", "in/c.md", "in/deep/d.md", "in/open/e.md", "in/deep/f.pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    (tmp_path / "b.md.access.toml").write_text("users = ['ann']")
    (tmp_path / "in" / ".access.toml").write_text("groups = ['red']")
    (tmp_path / "in" / "deep" / "f.pdf.access.toml").write_text("groups = ['blue']")
    (tmp_path / "in" / "open" / ".access.toml").write_text("everybody = true")
    return tmp_path


def test_the_nearest_list_counts(tree: Path) -> None:
    assert lists(tree) == {
        "a.md": None,
        "b.md": ("user:ann",),
        "in/c.md": ("group:red",),
        "in/deep/d.md": ("group:red",),
        "in/deep/f.pdf": ("group:blue",),
        "in/open/e.md": None,
    }
    assert troubles(tree) == []
    assert lists(tree / "in" / "deep")["d.md"] == ("group:red",)  # a list above a source counts too
    [page] = read_path(SourceContext(str(tree / "in" / "deep" / "d.md"), CrawlLimits(max_bytes=100_000)))
    assert isinstance(page, Page)
    assert page.sender_facts.access == ("group:red",)
    (tree / ".Access.toml").write_text("users = ['bob']")  # another case is a list too
    assert lists(tree)["a.md"] == ("user:bob",)
    [page] = [
        item
        for item in read_path(SourceContext(str(tree / "b.md"), CrawlLimits(max_bytes=1000)))
        if isinstance(item, Page)
    ]
    assert page.sender_facts.access == ("user:ann",)


def test_a_list_that_cannot_be_read_is_of_nobody(tree: Path) -> None:
    (tree / "in" / ".access.toml").write_text("groups = red")
    (tree / "b.md.access.toml").write_bytes(b"x" * 200_000)
    (tree / "in" / "open" / ".access.toml").unlink()
    (tree / "in" / "open" / ".access.toml").symlink_to(tree / "in" / "open" / "e.md")
    (tree / "in" / "deep" / "f.pdf.access.toml").unlink()
    os.mkfifo(tree / "in" / "deep" / "f.pdf.access.toml")
    assert lists(tree) == {
        "a.md": None,
        "b.md": (),
        "in/c.md": (),
        "in/deep/d.md": (),
        "in/deep/f.pdf": (),
        "in/open/e.md": (),
    }
    named = troubles(tree)
    assert [name.partition(":")[0] for name in named] == [
        "b.md.access.toml",
        ".access.toml",
        "f.pdf.access.toml",
        ".access.toml",
    ]
    assert all(name.endswith("no one gets access") for name in named)


def make(site: Site, *others: Path) -> BuildReport:
    return build_index(site.index, site.source, *others)


def seen(site: Site, *names: str) -> set[str]:
    with closing(Generation.open(site.index)) as generation:
        filter = Filter(readers=frozenset(names))
        return {Path(found["url"]).name for found in generation.documents(filter)}


def version(site: Site) -> int:
    with closing(Generation.open(site.index)) as generation:
        return generation.manifest.schema_version


def test_the_same_text_for_others_or_in_another_source_is_not_a_duplicate(tmp_path: Path) -> None:
    """Or one group's document would be missing because of one that it cannot see."""
    site, other = Site(tmp_path), tmp_path / "other"
    for path in site.source.iterdir():
        path.unlink()
    for folder in (site.source / "red", site.source / "blue", other):
        folder.mkdir()
        (folder / ".access.toml").write_text("everybody = true" if folder == other else f"groups = ['{folder.name}']")
        (folder / f"{folder.name}.md").write_text("# Same\n\nThe same text.")
    (other / "copy.md").write_text("# Same\n\nThe same text.")
    report = make(site, other)
    assert (seen(site), seen(site, "group:red")) == ({"copy.md"}, {"copy.md", "red.md"})
    assert seen(site, "group:blue") == {"copy.md", "blue.md"}
    assert [(group.reason, group.count) for group in report.skipped] == [("same content as another page", 1)]


def test_in_repositories_and_buckets_what_has_a_list_is_left_out_and_named() -> None:
    """Lists are not read there, and leaving them alone would open to everybody what they close."""
    names = (b"a.md", b"b.md", b"b.md.access.toml", b"in/.access.toml", b"in/c.md", b"in/deep/d.md", b"inside.md")
    listed = [StoredFile(name, 1, "") for name in names]
    files = StoredFiles(SourceContext("s3://x", CrawlLimits()), listed, root="s3://x")
    found = list(files.select())
    assert [item.path for item in found if isinstance(item, StoredFile)] == [b"a.md", b"inside.md"]
    reasons = {item.url.rpartition("/")[2]: item.reason for item in found if isinstance(item, Skip)}
    assert set(reasons) == {"b.md", "b.md.access.toml", ".access.toml", "c.md", "d.md"}
    assert all("access list" in reason for name, reason in reasons.items() if name != ".access.toml")

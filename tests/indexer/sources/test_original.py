"""Files behind documents: opened within their source and nowhere else."""

from pathlib import Path

import pytest

from indexer.errors import SourceError
from indexer.sources.folder import open_original


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a b#1.md").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    return folder


def opened(url: str, source: str, within: tuple[str, ...] = ()) -> tuple[str, str]:
    name, file = open_original(url, source, within)
    with file:
        return name, file.read().decode()


def test_a_file_of_a_folder(folder: Path) -> None:
    path = folder / "sub" / "a b#1.md"
    assert opened(path.as_uri(), str(folder)) == ("a b#1.md", "inside")
    assert opened(path.as_uri(), str(path)) == ("a b#1.md", "inside")
    assert opened(f"{path.as_uri()}!/member.txt", str(folder)) == ("a b#1.md", "inside")
    assert opened(path.as_uri(), str(folder), (str(folder.parent),)) == ("a b#1.md", "inside")


def test_a_name_of_several_lines(folder: Path) -> None:
    (folder / "a\nSet-Cookie: b.md").write_text("inside")
    assert opened(f"{folder.as_uri()}/a%0ASet-Cookie%3A%20b.md", str(folder)) == ("a Set-Cookie: b.md", "inside")


def test_nothing_outside_its_source_and_places_is_opened(folder: Path, tmp_path: Path) -> None:
    secret = folder.parent / "secret.txt"
    (folder / "link.txt").symlink_to(secret)
    (folder / "linked").symlink_to(folder.parent)
    for url in (
        secret.as_uri(),
        f"{folder.as_uri()}/../secret.txt",
        f"{folder.as_uri()}/%2e%2e/secret.txt",
        f"{folder.as_uri()}/link.txt",
        f"{folder.as_uri()}/linked/secret.txt",
        f"{folder.as_uri()}/sub",
        f"{folder.as_uri()}/gone.txt",
        f"file://host{secret}",
        "https://docs.example/a",
        "file:///%00",
    ):
        with pytest.raises(SourceError):
            open_original(url, str(folder))
    path = folder / "sub" / "a b#1.md"
    for source, within in ((str(folder), (str(tmp_path / "elsewhere"),)), ("https://docs.example/", ())):
        with pytest.raises(SourceError):
            open_original(path.as_uri(), source, within)

"""Lists above the start of a source, of every kind of source; lists with a slip; text that looks like a list."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.errors import NothingToIndex, SourceError
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.read.access_list import closed_paths, has_list
from indexer.read.formats import content_type_of
from indexer.records import Page, SenderFacts
from indexer.sources.pushed_store import PushedStore
from tests.indexer import files
from tests.indexer.conftest import make_page, parsed
from tests.indexer.pipeline.incremental import Work
from tests.indexer.sources.buckets import Store, opened
from tests.indexer.sources.repositories import Repository

SECRET = "# Salaries\n\nThe salary of the director is a secret."
RED = "groups = ['red']"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    yield from opened("s3", monkeypatch)


def visible(work: Work, *sources: object, readers: frozenset[str] = frozenset()) -> set[str]:
    """Return the addresses of the documents that a reader finds; none where nothing could be indexed."""
    try:
        work.build(*sources)
    except NothingToIndex:
        return set()
    with closing(Generation.open(work.index)) as generation:
        return {each["url"] for each in generation.documents(Filter(readers=readers))}


def archived(folder: Path) -> Path:
    path = folder / "in" / "deep" / "all.zip"
    path.write_bytes(files.zipped({"a.md": SECRET}))
    return path


def linked(folder: Path) -> Path:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.md").write_text(SECRET)
    (folder / "in" / "link").symlink_to(elsewhere)
    return folder / "in" / "link"


def repository(folder: Path) -> str:
    repo = Repository(folder / "in" / "repo")
    repo.commit(a__md=SECRET)
    return repo.source


KINDS: dict[str, Callable[[Path], object]] = {
    "folder": lambda folder: folder / "in" / "deep",
    "file": lambda folder: folder / "in" / "deep" / "a.md",
    "a link to a folder": linked,
    "archive": archived,
    "repository": repository,
}


@pytest.mark.parametrize("place", ["in/.access.toml", ".ACCESS.toml", "in/deeep.access.toml"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_list_above_the_start_on_this_machine_counts(tmp_path: Path, work: Work, kind: str, place: str) -> None:
    folder = tmp_path / "docs"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "deep" / "a.md").write_text(SECRET)
    source = KINDS[kind](folder)
    assert len(visible(work, source)) == 1
    (folder / place).write_text(RED)
    if place.startswith("in/deeep") and kind in ("file", "archive"):
        with pytest.raises(SourceError, match=r"deeep\.access\.toml|names no file"):
            work.build(source)
    else:
        assert visible(work, source) == set()


@pytest.mark.parametrize(
    "place", [".access.toml", "in/.Access.toml", "in/deeep.access.toml", "in/deep/b.MD.access.toml"]
)
@pytest.mark.parametrize("source", ["", "/in/deep", "/in/deep/b.md", "/in/deep/all.zip"])
def test_a_list_above_the_start_in_a_bucket_counts(store: Store, work: Work, source: str, place: str) -> None:
    store.put("in/deep/b.md", SECRET)
    store.put("in/deep/all.zip", files.zipped({"c.md": SECRET}))
    everything = visible(work, store.source + source)
    assert everything
    store.put(place, RED)
    closed = {each for each in everything if place != "in/deep/b.MD.access.toml" or each.endswith("/b.md")}
    assert visible(work, store.source + source) == everything - closed


def test_a_bucket_whose_folders_above_cannot_be_listed_is_not_read(store: Store, work: Work) -> None:
    store.put("in/deep/b.md", SECRET)
    store.page = 1
    store.put("z/z.md", "Text")
    store.broken["list 0"] = 403
    with pytest.raises(SourceError):
        work.build(f"{store.source}/in/deep")


def test_a_pushed_document_and_its_members_have_the_list_of_their_sender(work: Work) -> None:
    store = PushedStore(work.index)
    work.index.mkdir(exist_ok=True)
    body, red = files.zipped({"a.md": SECRET}), ("group:red",)
    for url, content, kind in (("x:a", SECRET.encode(), "text/markdown"), ("x:b", body, "application/zip")):
        store.put(Page(url, "pushed://documents", content, kind, sender_facts=SenderFacts(access=red)))
    assert visible(work) == set()
    assert visible(work, readers=frozenset(red)) == {"x:a", "x:b!/a.md"}


def test_a_list_with_a_slip_in_its_name_closes_its_folder(tmp_path: Path, work: Work) -> None:
    for name in ("a.md", "in/x.md", "in/y.md", "in/own.md", "in/below/z.md", "in/open/o.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"# {name}\n\nThe text of {name} is here.")
    folder = tmp_path / "docs"
    (folder / "in" / "X.md.Access.toml").write_text(RED)  # case does not matter
    (folder / "in" / "own.md.access.toml").write_text("everybody = true")
    (folder / "in" / "open" / ".access.toml").write_text("everybody = true")
    names = {url.removeprefix(folder.as_uri() + "/") for url in visible(work, folder)}
    assert names == {"a.md", "in/y.md", "in/own.md", "in/below/z.md", "in/open/o.md"}
    (folder / "in" / "x.access.toml").write_text(RED)
    names = {url.removeprefix(folder.as_uri() + "/") for url in visible(work, folder)}
    assert names == {"a.md", "in/own.md", "in/open/o.md"}
    [failure] = work.build(folder, full=True).failed
    assert failure.url.endswith("/in/x.access.toml")
    assert "names no file" in failure.reason


@pytest.mark.parametrize(
    ("names", "closed", "is_open"),
    [
        (["a.md", "A.MD.access.toml", "b.md"], ["a.md"], ["b.md"]),
        (["in/a.md", "in/b.md", "in/a.access.toml", "c.md"], ["in/a.md", "in/b.md"], ["c.md"]),
        (["in/a.md", "c.md", "IN/.ACCESS.TOML"], ["in/a.md"], ["c.md"]),
        (["c.md", "c.access.toml"], ["c.md"], []),
    ],
)
def test_lists_among_stored_files(names: list[str], closed: list[str], is_open: list[str]) -> None:
    lists = closed_paths(names)
    assert all(has_list(name, lists) for name in closed)
    assert not any(has_list(name, lists) for name in is_open)


LIKE_LISTS = (
    "access: {users: [ann]}", "access:\n  groups:\n    - staff", "[access]\nusers = ['ann']", "access.users = ['ann']",
    '{"access": {"groups": ["staff"]}}', "Access: users: ann; groups: staff", "A plan\n\naccess: {everybody: false}",
    "access => { users => ['ann'] }", "x " * 1_500 + "\naccess: {user: ann}",
    "\u201caccess\u201d: {\u201cusers\u201d: [ann]}",
)  # fmt: skip
PLAIN = ("Access: by bus\n\nGroups: 9 to 5", "Remote access for users of groups", "access = true\nusers = []")


@pytest.mark.parametrize("text", [*LIKE_LISTS, *PLAIN])
@pytest.mark.parametrize("name", ["a.txt", "a.py", "a.sql", "a.html", "a.docx", "a.eml", "a.csv", "a.rst", "a.md"])
def test_text_that_looks_like_a_list_is_noted_and_closes_nothing(name: str, text: str) -> None:
    lines = [*text.split("\n"), "", "The rest is plain text."]
    bodies: dict[str, str | bytes] = {
        "a.py": "".join(f"# {line}\n" for line in lines),
        "a.sql": "".join(f"-- {line}\n" for line in lines),
        "a.html": "<title>T</title><main>" + "".join(f"<p>{line}</p>" for line in lines),
        "a.docx": files.docx("".join(map(files.paragraph, lines))),
        "a.eml": "Subject: x\n\n" + "\n".join(lines),
        "a.csv": "".join('"' + line.replace('"', '""') + '"\n' for line in lines),
        "a.md": "A page about lists.\n\n" + "\n".join(lines),
    }
    page = make_page(bodies.get(name, "\n".join(lines)), content_type_of(name) or "", f"file:///{name}")
    document = parsed(page)
    assert document.access.declared is None
    assert any("looks like an access list" in note for note in document.notes) is (text in LIKE_LISTS)

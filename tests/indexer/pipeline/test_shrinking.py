"""Sources that vanish between two builds, of every kind: the index keeps what it had until somebody confirms."""

import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import CrawlLimits, CrawlScope
from indexer.errors import SourceError
from tests.indexer import files
from tests.indexer.pipeline.incremental import Work, link
from tests.indexer.server import Reply, Site, page, send
from tests.indexer.sources.buckets import Store, opened
from tests.indexer.sources.repositories import Repository

NAMES = [f"p{number}.md" for number in range(10)]


def text(name: str) -> str:
    return f"# Page {name}\n\nThis is what the page {name} says of the heron colony of {name}."


class Source:
    """A source of ten pages that can lose some, and its address."""

    def __init__(self, source: object, lose: Callable[[list[str]], None]) -> None:
        self.source, self.lose = str(source), lose


def folder(tmp_path: Path) -> Source:
    place = tmp_path / "drive"
    place.mkdir()
    for name in NAMES:
        (place / name).write_text(text(name))

    def lose(names: list[str]) -> None:
        for name in names:
            (place / name).unlink()

    return Source(place, lose)


def archive(tmp_path: Path) -> Source:
    path = tmp_path / "all.zip"

    def lose(names: list[str]) -> None:
        path.write_bytes(files.zipped({name: text(name) for name in NAMES if name not in names}))

    lose([])
    return Source(path, lose)


def repository(tmp_path: Path) -> Source:
    repo = Repository(tmp_path / "repo")
    repo.commit_files({name: text(name) for name in NAMES})
    return Source(repo.source, lambda names: repo.commit_files({}, tuple(names)) and None)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    yield from opened("s3", monkeypatch)


def bucket(store: Store) -> Source:
    for name in NAMES:
        store.put(name, text(name))
    return Source(store.source, lambda names: [store.objects.pop(name) for name in names] and None)


def website(site: Site, answer: Callable[[BaseHTTPRequestHandler], None]) -> Source:
    site.routes["/"] = page(link(*NAMES) + "<p>The pages of the heron colony are listed here.</p>", "Start")
    site.routes["/login"] = page("<h1>Log in</h1><p>Name and password, please.</p>", "Log in")
    for name in NAMES:
        site.routes[f"/{name}"] = page(f"<h1>{name}</h1><p>{text(name)}</p>", name)

    def lose(names: list[str]) -> None:
        for name in names:
            site.routes[f"/{name}"] = answer

    return Source(f"{site.url}/", lose)


def not_found(handler: BaseHTTPRequestHandler) -> None:
    send(handler, Reply(b"gone", 404, {"Content-Type": "text/html"}))


def to_login(handler: BaseHTTPRequestHandler) -> None:
    send(handler, Reply(b"", 302, {"Location": "/login"}))


def login(handler: BaseHTTPRequestHandler) -> None:
    """Answer with a page that differs at every address, but not in its text."""
    body = page(f"<h1>Log in</h1><p>Name and password, please.</p><input type=hidden value={handler.path}>", "Log in")
    send(handler, Reply(body.encode(), 200, {"Content-Type": "text/html"}))


@pytest.fixture(params=["folder", "archive", "repository", "bucket", "not_found", "to_login", "login"])
def source(request: pytest.FixtureRequest, tmp_path: Path, site: Site, store: Store) -> Source:
    makers = {"folder": folder, "archive": archive, "repository": repository}
    if request.param == "bucket":
        return bucket(store)
    if request.param in makers:
        return makers[request.param](tmp_path)
    return website(site, globals()[request.param])


def test_a_source_that_has_lost_most_keeps_it_until_somebody_confirms(source: Source, work: Work, docs: Path) -> None:
    work.build(source.source, docs)
    before = work.content()
    source.lose(NAMES[2:])
    (docs / "new.md").write_text("# New\n\nThe other source is read.")
    report = work.build(source.source, docs)
    assert (report.gone.count, report.new.count) == (0, 1)
    [kept] = report.kept
    assert kept.url == source.source
    assert "--allow-shrink" in kept.reason
    assert kept.reason in work.said
    after = work.content()
    assert {url: after[url] for url in before if url != "pages"} == {
        url: before[url] for url in before if url != "pages"
    }
    assert not work.build(source.source, docs).published
    report = work.build(source.source, docs, allow_shrink=True)
    assert report.gone.count + report.changed.count >= 8
    assert report.kept == []
    assert not work.build(source.source, docs).published


def test_a_single_source_that_is_empty_stops_the_build(source: Source, work: Work) -> None:
    work.build(source.source)
    before = work.content()
    source.lose(NAMES)
    with pytest.raises(SourceError, match=r"the live index has not changed.* --allow-shrink"):
        work.build(source.source)
    assert work.content() == before


def test_what_somebody_decided_is_no_loss(tmp_path: Path, work: Work, docs: Path, site: Site) -> None:
    drive, pages = folder(tmp_path), website(site, not_found)
    everything = work.build(drive.source, pages.source, docs).documents
    work.build(drive.source, docs)
    assert work.build(docs).kept == []
    assert work.build(drive.source, pages.source, docs).documents == everything
    narrow = CrawlLimits(allow_private=True, timeout=300.0, scope=CrawlScope(include=("/p1.md",)))
    assert work.build(drive.source, pages.source, docs, limits=narrow).documents == everything - 10
    work.remove(drive.source)
    moved = tmp_path / "drive" / "in"
    moved.mkdir()
    work.build(drive.source, docs)
    for name in NAMES:  # as many as before, at other places
        shutil.move(tmp_path / "drive" / name, moved / name)
    report = work.build(drive.source, docs)
    assert (report.new.count, report.gone.count, report.kept) == (10, 10, [])


@pytest.mark.parametrize(("lost", "is_kept"), [(1, False), (4, False), (5, False), (6, True), (9, True)])
def test_less_than_half_is_asked_about(tmp_path: Path, work: Work, docs: Path, lost: int, is_kept: bool) -> None:
    drive = folder(tmp_path)
    work.build(drive.source, docs)
    drive.lose(NAMES[:lost])
    assert bool(work.build(drive.source, docs).kept) == is_kept

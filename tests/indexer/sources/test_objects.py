import gzip
import logging
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import CrawlLimits, CrawlScope
from indexer.errors import SourceError
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.bucket import Bucket
from tests.indexer.files import zipped
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, send
from tests.indexer.sources.buckets import SECRET, Store, opened

LIMITS = CrawlLimits(timeout=300.0, max_bytes=2_000)


@pytest.fixture(params=["s3", "gs", "az"])
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Of every kind, one."""
    yield from opened(request.param, monkeypatch)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    yield from opened("s3", monkeypatch)


def zoo(store: Store) -> None:
    store.put("cats.md", "# Cats\n\nCats sleep most of the day.")
    store.put("guide/dogs.md", "# Dogs\n\nDogs bark at strangers.")


def read(source: str, limits: CrawlLimits = LIMITS) -> dict[str, Item]:
    return {item.url: item for item in Bucket(SourceContext(source, limits)).items()}


def reasons(source: str, limits: CrawlLimits = LIMITS) -> dict[str, str]:
    found = {url.removeprefix("s3://docs/"): item for url, item in read(source, limits).items()}
    return {url: item.reason for url, item in found.items() if isinstance(item, Skip | Failure)}


def test_objects_are_read_and_afterwards_only_what_has_changed(each: Store, work: Work) -> None:
    zoo(each)
    report = work.build(each.source)
    assert (report.documents, report.fetched) == (2, 2)
    assert each.read == ["cats.md", "guide/dogs.md"]
    assert {*work.content()} - {"pages"} == {f"{each.source}/cats.md", f"{each.source}/guide/dogs.md"}
    assert not work.build(each.source).published
    assert each.read == []
    each.put("cats.md", "# Cats\n\nCats hunt at night.")
    report = work.build(each.source)
    assert (report.fetched, report.unchanged, report.embedded) == (1, 1, 1)
    assert each.read == ["cats.md"]
    del each.objects["guide/dogs.md"]
    assert work.build(each.source).documents == 1
    assert {*work.content()} - {"pages"} == {f"{each.source}/cats.md"}


def test_a_prefix_is_whole_steps_and_may_be_one_object(store: Store) -> None:
    for name in ("guide/a.md", "guide/b/c.md", "guides/x.md", "guide.md"):
        store.put(name, f"# {name}\n\nText.")
    assert {*read("s3://docs/guide")} == {"s3://docs/guide/a.md", "s3://docs/guide/b/c.md"}
    assert {*read("s3://docs/guide.md")} == {"s3://docs/guide.md"}
    with pytest.raises(SourceError, match="no objects with this name"):
        read("s3://docs/guid")
    store.page = 3
    assert (len(read("s3://docs")), store.listings) == (4, 8)  # of those below, and in the folders above
    with pytest.raises(SourceError, match="larger than 50 bytes"):
        read("s3://docs", CrawlLimits(max_total_bytes=50))
    store.put("../b.md", "# Odd")
    with pytest.raises(SourceError, match=r'^s3://docs: .* invalid path: .*"\.\./b\.md"'):
        read("s3://docs")


def test_one_object_is_left_out_by_its_access_list(store: Store) -> None:
    store.put("open/a.md", "# Open")
    store.put("own/a.md", "# Own")
    store.put("own/a.md.access.toml", "groups = ['red']")
    store.put("all/deep/a.md", "# All")
    store.put("all/.access.toml", "groups = ['red']")
    for folder in ("own", "all/deep"):
        assert reasons(f"s3://docs/{folder}/a.md")[f"{folder}/a.md"].startswith("has an access list")
    assert reasons("s3://docs/open/a.md") == {}


@pytest.mark.parametrize("told", ["cannot be listed within 1 seconds", "one listing response is larger than"])
def test_listings_without_an_end(store: Store, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if told.startswith("cannot"):
            body = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
            send(handler, Reply(body + b"</ListBucketResult>", 200, {"Content-Type": "application/xml"}))
            return
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>")
        while not store.stopping.is_set():
            handler.wfile.write(b"<Contents><Key>a</Key></Contents>" * 10_000)

    monkeypatch.setattr(store, "_answer", answer)
    monkeypatch.setattr("indexer.sources.bucket._LISTING_SECONDS", 1.0 if told.startswith("cannot") else 20.0)
    monkeypatch.setattr("indexer.sources.bucket._MAX_RESPONSE_BYTES", 30_000_000)
    with pytest.raises(SourceError, match=f"^s3://docs: {told}"):
        read("s3://docs")


@pytest.mark.parametrize(("status", "every", "lost"), [(403, 1, 10**6), (500, 2, 0)], ids=["always", "now and then"])
def test_a_store_that_fails_for_too_long(
    store: Store, status: int, every: int, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        store.put(f"{n:02}.md", f"# {n}\n\nText {n}.")
        store.broken |= {} if n % every else {f"{n:02}.md": status}
    monkeypatch.setattr("indexer.sources.bucket._MAX_FAILED_SECONDS", lost)
    with pytest.raises(SourceError, match="too many objects could not be read"):
        read("s3://docs")
    assert len(store.read) <= 20 + LIMITS.concurrency


def test_types_are_told_by_names_and_else_by_the_store(store: Store) -> None:
    page = "<title>Cats</title><p>Cats sleep."
    store.put("about", page, Content_Type="text/html; charset=latin-1")
    store.put("cats.html", page, Content_Type="binary/octet-stream")
    store.put("noise", page, Content_Type="application/octet-stream")
    store.put("packed.html", gzip.compress(page.encode()), Content_Encoding="gzip")
    store.put("film.mp4", page, Content_Type="text/html")
    found = {url.removeprefix("s3://docs/"): item for url, item in read(store.source).items()}
    pages = {name: item for name, item in found.items() if isinstance(item, Page)}
    assert {name: (item.content_type, item.charset) for name, item in pages.items()} == {
        "about": ("text/html", "latin-1"),
        "cats.html": ("text/html", None),
        "packed.html": ("text/html", None),
    }
    assert pages["packed.html"].body == page.encode()
    assert pages["about"].last_modified == "Tue, 02 Jan 2024 03:04:05 GMT"
    assert reasons(store.source) == {
        "noise": "media type application/octet-stream is not read",
        "film.mp4": "file type .mp4 is not read",
    }
    assert "film.mp4" not in store.read


def test_what_is_left_out_is_named_and_not_fetched(store: Store) -> None:
    zoo(store)
    store.put("huge.md", "x" * 2_001)
    store.put("guide/", "")
    store.put(".git/a.md", "# Hidden")
    store.put(".git/b.md", "# Hidden")
    store.put("guide/draft.md", "# Draft\n\nText.")
    limits = CrawlLimits(timeout=300.0, max_bytes=2_000, scope=CrawlScope(exclude=("/guide/draft",)))
    assert reasons(store.source, limits) == {
        "huge.md": "larger than 2,000 bytes",
        "guide": "empty",
        ".git": "hidden",
        "guide/draft.md": "excluded by /guide/draft",
    }
    assert store.read == ["cats.md", "guide/dogs.md"]


def test_a_bomb_and_a_body_longer_than_it_was_listed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo(store)
    listed = store._list
    monkeypatch.setattr(store, "_list", lambda *asked: (listed(*asked), store.put("cats.md", "x" * 3_000_000)))
    store.put("bomb.md", gzip.compress(b"x" * 1_000_000), Content_Encoding="gzip")
    store.put("odd.md", "# Odd", Content_Encoding="compress")  # which it is not
    assert reasons(store.source) == {"bomb.md": "larger than 2,000 bytes", "cats.md": "larger than 2,000 bytes"}


def test_odd_names_are_read(store: Store, work: Work) -> None:
    names = ["100% of it.md", "a%20b.md", "a%2F..%2Fb.md", "a&<b>.md", "back\\slash.md", "naïve ✓.md", "q?x#y.md"]
    for number, name in enumerate(names):
        store.put(name, f"# {number}\n\nText number {number}.")
    report = work.build(store.source)
    assert report.documents == len(names)
    assert store.read == sorted(names)
    assert "s3://docs/a%252F..%252Fb.md" in work.content()
    assert not work.build(store.source).published


def test_archives_and_mail(store: Store, work: Work) -> None:
    store.put("pack.zip", zipped({"a.md": "# Ants\n\nAnts march.", "b.md": "# Bees\n\nBees hum."}))
    store.put("note.eml", "Subject: Goats\nContent-Type: text/plain\n\nGoats climb.")
    assert work.build(store.source).documents == 3
    assert "s3://docs/pack.zip!/a.md" in work.content()
    assert store.read == ["note.eml", "pack.zip"]
    assert not work.build(store.source).published
    assert store.read == ["pack.zip"]  # mail that has not changed is not fetched


@pytest.mark.parametrize(("place", "status"), [(0, 403), (2, 500)])
def test_a_listing_that_fails_leaves_the_live_index(each: Store, work: Work, place: int, status: int) -> None:
    zoo(each)
    each.put("birds.md", "# Birds\n\nBirds sing.")
    work.build(each.source)
    live = (work.index / "CURRENT").read_text()
    each.page = 2
    each.broken[f"list {place}"] = status
    with pytest.raises(SourceError, match=rf"^{each.source}: the store failed .*{status}") as caught:
        work.build(each.source)
    assert "\n" not in str(caught.value)
    assert (work.index / "CURRENT").read_text() == live


def test_an_object_that_is_not_given_keeps_what_is_known_of_it(store: Store, work: Work) -> None:
    zoo(store)
    work.build(store.source)
    store.put("cats.md", "# Cats\n\nCats hunt at night.")
    store.put("new.md", "# New\n\nNothing yet.")
    store.broken |= {"cats.md": 500, "new.md": 403}
    report = work.build(store.source)
    assert [(one.url, report.documents) for one in report.failed] == [("s3://docs/new.md", 2)]
    assert [one.url for one in report.kept] == ["s3://docs/cats.md"]
    assert "Cats sleep" in str(work.content())
    store.broken.clear()
    assert work.build(store.source).documents == 3
    assert "Cats hunt" in str(work.content())


def test_a_bucket_that_is_not_there(each: Store) -> None:
    with pytest.raises(SourceError, match=r"there is no (bucket|container) none"):
        read(f"{each.scheme}://none/a")


@pytest.mark.parametrize(
    ("scheme", "variable"),
    [("s3", "AWS_SECRET_ACCESS_KEY"), ("gs", "GOOGLE_SERVICE_ACCOUNT"), ("az", "AZURE_STORAGE_ACCOUNT_KEY")],
)
def test_no_credentials(scheme: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("indexer.sources.bucket._RETRY", {"max_retries": 0})
    monkeypatch.setenv("HOME", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        with pytest.raises(SourceError, match=r"^\w\w://docs: .* pip install 'pilotlight\[remote\]'$"):
            read(f"{scheme}://docs")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(SourceError, match=rf"check the credentials \(.*{variable}.*\) and the endpoint") as caught:
        read(f"{scheme}://docs", CrawlLimits(timeout=0.5))
    assert "\n" not in str(caught.value)


def test_secrets_are_sent_and_seen_nowhere(
    each: Store, work: Work, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    zoo(each)
    work.build(each.source)
    assert all(each.authorised)
    told = [work.said, caplog.text]
    for status in (401, 403, 500):
        each.broken["list 0"] = status
        with pytest.raises(SourceError) as caught:
            work.build(each.source)
        assert caught.value.__suppress_context__
        told.append(str(caught.value))
    told += capfd.readouterr()
    seen = "".join(told).encode() + b"".join(path.read_bytes() for path in work.index.rglob("*") if path.is_file())
    assert SECRET.encode() not in seen
    assert not any(value and value.encode() in seen for value in each.authorised)

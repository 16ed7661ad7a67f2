"""Sites behind a door: what is sent where, what is taken out of answers, and what becomes of a session that ends."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.crawl.fetch import Fetcher
from indexer.errors import ConfigError, CredentialsError, SessionEnded, SourceError
from indexer.network.credentials import Basic, Credential, InEnvironment, InFile, Session, parse_origin
from indexer.records import Failure, Page, Skip
from indexer.source_context import SourceContext
from tests.indexer.crawl.doors import Door, noting
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, page, redirect

LIMITS = CrawlLimits(allow_private=True, timeout=300.0, concurrency=1)
TOKEN = "tok-3f9a61c2d4e5-of-this-reader"
SECRET = InEnvironment("DOOR_SECRET")
Open = Callable[..., Door]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_SECRET", TOKEN)


@pytest.fixture
def door() -> Iterator[Open]:
    doors: list[Door] = []

    def opened(**how: object) -> Door:
        doors.append(Door(TOKEN, **how))  # type: ignore[arg-type]
        return doors[-1]

    yield opened
    for each in doors:
        each.close()


@pytest.fixture
def member(tmp_path: Path) -> Callable[[Site], Credential]:
    """Give the credential of a member, by an export of a browser's cookies."""

    def of(site: Site) -> Credential:
        return Credential(site.url, cookies=private(tmp_path / "cookies.txt", cookie_line("sid", TOKEN)))

    return of


def private(path: Path, text: str) -> InFile:
    path.touch(mode=0o600)
    path.write_text(text)
    return InFile(path)


def cookie_line(name: str, value: str) -> str:
    return f"127.0.0.2\tFALSE\t/\tFALSE\t0\t{name}\t{value}\n"


def read(start: str, *credentials: Credential) -> tuple[list[str], dict[str, str]]:
    """Paths of the pages that a crawl gives, and why others were left out."""
    sessions = {each.origin: Session(each) for each in credentials}
    items = list(crawl(SourceContext(start, LIMITS), sessions))
    pages = [item.url.split("/", 3)[3] for item in items if isinstance(item, Page)]
    return pages, {item.url.split("/", 3)[3]: item.reason for item in items if isinstance(item, Skip | Failure)}


def test_every_kind_goes_to_its_origin_and_no_other(site: Site, tmp_path: Path) -> None:
    """A redirect there and back, to another port of the same host."""
    other, here, there = Site("127.0.0.2"), list[dict[str, str]](), list[dict[str, str]]()
    old = "127.0.0.2\tFALSE\t/\tFALSE\t1\told\tgone"  # and what some programs write
    kept = f"#HttpOnly_{cookie_line('kept', f'{TOKEN}-c')}".replace("\t0\t", "\t99999999999.5\t")
    cookies = private(tmp_path / "cookies.txt", f"\ufeff# Netscape HTTP Cookie File\r\n\r\n{kept}{old}")
    try:
        site.routes["/p"] = noting(here, redirect(f"{other.url}/q"))
        site.routes["/r"] = noting(here, Reply(b"end"))
        away = Reply(b"", 302, {"Location": f"{site.url}/r", "Set-Cookie": "theirs=x; Path=/"})
        other.routes["/q"] = noting(there, away)
        given = Credential(site.url, basic=Basic("me", SECRET), headers={"X-Key": SECRET}, cookies=cookies)
        with closing(Fetcher(LIMITS, sessions={given.origin: Session(given)})) as fetcher:
            assert fetcher.get(f"{site.url}/p").body == b"end"
    finally:
        other.close()
    assert [set(sent) & {"authorization", "x-key", "cookie"} for sent in there] == [set()]
    assert [(sent["x-key"], sent["cookie"]) for sent in here] == [(TOKEN, f"kept={TOKEN}-c")] * 2
    assert {sent["authorization"].split()[0] for sent in here} == {"Basic"}


def test_cookies_that_a_site_sets_come_back_where_they_may(site: Site) -> None:
    seen: list[dict[str, str]] = []
    lines = ["all=1; Path=/", "deep=2; Path=/deep/", "tls=3; Secure", "else=4; Domain=a.test", "gone=5; Max-Age=0"]

    def sets(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        for line in lines:
            handler.send_header("Set-Cookie", line)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    site.routes["/set"] = sets
    site.routes["/p"] = site.routes["/deep/p"] = noting(seen, Reply(b"x"))
    for credentials in ([Credential(site.url)], []):
        with closing(Fetcher(LIMITS, sessions={each.origin: Session(each) for each in credentials})) as fetcher:
            for path in ("/set", "/p", "/deep/p"):
                assert "Set-Cookie" not in fetcher.get(f"{site.url}{path}").headers
    assert [sent.get("cookie", "").split("; ") for sent in seen] == [["all=1"], ["deep=2", "all=1"], [""], [""]]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("127.0.0.2\tFALSE\t/\tFALSE\t1\tname\tv4lue", "has no valid cookie for http://127.0.0.2"),
        ("example.org\tTRUE\t/\tFALSE\t0\tname\tv4lue", "has no valid cookie"),
        ("name=v4lue", "line 1: not a cookie in Netscape format"),
    ],
)
def test_cookie_files_that_are_of_no_use(site: Site, tmp_path: Path, line: str, told: str) -> None:
    place = private(tmp_path / "cookies.txt", line)
    with pytest.raises(CredentialsError, match=f"^credentials of {site.url}: .*{told}") as caught:
        read(site.url, Credential(site.url, cookies=place))
    assert "v4lue" not in str(caught.value)
    assert site.hits == []


def test_secrets_are_taken_out_of_answers_in_every_spelling_and_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_SECRET", "a secret & more")
    session = Session(Credential("https://a.test", headers={"X-Key": SECRET}))
    session.headers("https://a.test/")
    for value in ("first-value-of-a-cookie", *(f"value-{number}-of-a-cookie-that-changes" for number in range(199))):
        session.store_cookies("https://a.test/", [f"sid={value}"])
    told = b"|first-value-of-a-cookie|a secret &amp; more|a+secret+%26+more|value-7-of-a-cookie-that-changes|short|"
    assert session.redact(told) == b"|||||short|", "as many as answers may be under way"
    session.store_cookies("https://a.test/", ["sid=the-last-value-of-a-cookie"])
    assert session.redact(told) == b"|first-value-of-a-cookie||||short|"


@pytest.mark.parametrize("how", ["redirect", "401", "form"])
def test_a_session_that_ends_stops_the_build(door: Open, member: Callable[[Site], Credential], how: str) -> None:
    """Its pages would be taken for gone otherwise."""
    site = door(pages=6, how=how, lasts=3)
    site.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /login\n")
    with pytest.raises(SessionEnded, match=r"asks to log in at http.*/p3: its cookies must be renewed"):
        read(f"{site.url}/p0", member(site))


@pytest.mark.parametrize("how", ["redirect", "401", "form"])
def test_pages_for_others_are_left_out_while_the_session_lives(
    door: Open, member: Callable[[Site], Credential], how: str
) -> None:
    site = door(pages=3, how=how)
    site.routes["/p0"] = site.guarded(page("<p>Start<a href=/p1>1</a><a href=/admin>2</a><a href=/p2>3</a>"))
    site.routes["/admin"] = {
        "redirect": redirect("http://127.0.0.9/login?next=/admin"),
        "401": Reply(b"", 401),
        "form": page("<p>Change it<form method=post><input type=password name=new></form>"),
    }[how]
    pages, left_out = read(f"{site.url}/p0", member(site))
    assert pages == ["p0", "p1", "p2"]
    assert list(left_out) == ["admin"]


def test_links_that_log_out_are_not_followed(door: Open, member: Callable[[Site], Credential]) -> None:
    site = door(pages=2)
    ways = "/logout /users/sign_out /x?do=logout /Logout.action /wiki/Special:UserLogout".split()
    links = "".join(f"<a href='{way}'>x</a>" for way in ways)
    site.routes["/p0"] = site.guarded(page(f"<p>Start{links}<a href=/p1>on</a>"))
    pages, left_out = read(f"{site.url}/p0", member(site))
    assert pages == ["p0", "p1"]
    assert set(left_out.values()) == {"a link that logs out"}
    assert len(left_out) == len(ways)
    assert not {"/logout", "/users/sign_out"} & set(site.hits)


def test_a_source_is_not_read_without_its_credentials_by_mistake(
    door: Open, member: Callable[[Site], Credential], work: Work
) -> None:
    site = door(pages=2)
    start = f"{site.url}/p0"
    work.build(start, limits=LIMITS, credentials=[member(site)])
    live = (work.index / "CURRENT").read_text()
    assert not work.build(start, limits=LIMITS, credentials=[member(site)]).published
    with pytest.raises(CredentialsError, match="was read with credentials before, and there are none for it now"):
        work.build(start, limits=LIMITS)
    assert (work.index / "CURRENT").read_text() == live
    open_to_all = work.build(start, limits=LIMITS, credentials=[Credential(site.url)])
    assert open_to_all.documents == 1, "its login page, as anyone sees it"
    work.build(start, limits=LIMITS)


def test_places_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", f"{TOKEN}\n")
    assert InEnvironment("A_SECRET").read() == TOKEN
    assert private(tmp_path / "secret", f" {TOKEN} \r\n").read() == f" {TOKEN} "
    private(tmp_path / "binary", "").path.write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe", 0o600)
    refused = {
        private(tmp_path / "empty", "\n"): "is empty",
        InFile(tmp_path / "binary"): "is not text in UTF-8",
        InFile(tmp_path / "none"): "cannot be read: No such file",
        InFile(tmp_path): "cannot be read: Is a directory",
        InFile(tmp_path / "pipe"): "is not a file",
        InEnvironment("DOOR_UNSET"): "variable DOOR_UNSET is not set",
    }
    for mode in (0o640, 0o604, 0o660, 0o610):
        private(tmp_path / f"{mode:o}", TOKEN).path.chmod(mode)
        refused[InFile(tmp_path / f"{mode:o}")] = rf"can be read by others \(mode {mode:o}\): chmod 600 it"
    for place, told in refused.items():
        with pytest.raises(CredentialsError, match=told) as caught:
            place.read()
        assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("text", ["https://a.test", "https://A.test:443/", "https://a.test:8443", "http://[::1]:80"])
def test_origins_that_secrets_may_be_sent_to(text: str) -> None:
    assert parse_origin(text) in {"https://a.test", "https://a.test:8443", "http://[::1]"}
    for other in ("http://a.test", "http://localhost.a.test", "http://127.0.0.1.a.test", "ftp://a.test"):
        with pytest.raises(ConfigError):
            parse_origin(other)


@pytest.mark.parametrize("source", ["https://me:s3cret@a.test/", "HTTP://s3cret@a.test"])
def test_a_source_with_a_password_is_refused_and_not_quoted(work: Work, source: str) -> None:
    with pytest.raises(SourceError, match=r"configure them under \[\[credentials\]\]") as caught:
        work.build(source)
    assert "s3cret" not in str(caught.value)
    assert not work.index.exists()

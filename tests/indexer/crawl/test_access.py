"""Sites behind a door: what is sent where, and what becomes of a session that ends."""

import io
import os
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from indexer.config import BuildConfig, CrawlLimits
from indexer.crawl.access.redaction import Redaction
from indexer.crawl.access.session import Sessions
from indexer.crawl.answers import Answer
from indexer.crawl.crawler import crawl
from indexer.crawl.fetch import Fetcher
from indexer.crawl.journal import Journal, base_of
from indexer.credentials import Basic, ClientCertificate, Credential, InEnvironment, InFile, Login, Success
from indexer.errors import CredentialsError, LoginFailed, SessionEnded, SourceError
from indexer.generation.layout import BUILDING, JOURNAL
from indexer.pipeline.build import build as build_index
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from indexer.records import Failure, Page, Skip
from tests.dummy import DummyEmbedder
from tests.indexer.crawl.doors import FORM, PASSWORD, USER, Door, noting
from tests.indexer.server import Reply, Site, page, redirect, send

LIMITS = CrawlLimits(allow_private=True, timeout=20.0, concurrency=1)
TOKEN = "tok-3f9a61c2d4e5"
SECRET = InEnvironment("DOOR_SECRET")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_SECRET", TOKEN)
    monkeypatch.setenv("DOOR_PASSWORD", PASSWORD)


@pytest.fixture
def door() -> Iterator[Callable[..., Door]]:
    doors: list[Door] = []

    def opened(**how: object) -> Door:
        doors.append(Door(**how))  # type: ignore[arg-type]
        return doors[-1]

    yield opened
    for each in doors:
        each.close()


AT_HOME = Success(path="/home")


def login(site: Site, success: Success = AT_HOME, **fields: object) -> Credential:
    places = {"user": USER, "pass": InEnvironment("DOOR_PASSWORD"), **fields}
    return Credential(site.url, login=Login(f"{site.url}/login", places, success))  # type: ignore[arg-type]


def read(start: str, *credentials: Credential) -> tuple[list[str], dict[str, str]]:
    """Paths of the pages that a crawl gives, and why others were left out."""
    items = list(crawl(start, LIMITS, lambda due: None, sessions=Sessions(credentials)))
    pages = [item.url.split("/", 3)[3] for item in items if isinstance(item, Page)]
    return pages, {item.url.split("/", 3)[3]: item.reason for item in items if isinstance(item, Skip | Failure)}


# What is sent


def private(path: Path, text: str) -> InFile:
    path.touch(mode=0o600)
    path.write_text(text)
    return InFile(path)


def test_every_kind_goes_to_its_origin_and_no_other(site: Site, tmp_path: Path) -> None:
    """A redirect there and back, to another port of the same host."""
    other, here, there = Site(), [], []  # type: ignore[var-annotated]
    cookies = private(tmp_path / "cookies.txt", f"127.0.0.1\tFALSE\t/\tFALSE\t0\tkept\t{TOKEN}-c\n")
    try:
        site.routes["/p"] = noting(site, here, redirect(f"{other.url}/q"))
        site.routes["/r"] = noting(site, here, Reply(b"end"))
        away = Reply(b"", 302, {"Location": f"{site.url}/r", "Set-Cookie": "theirs=x; Path=/"})
        other.routes["/q"] = noting(other, there, away)
        given = Credential(site.url, basic=Basic("me", SECRET), headers={"X-Key": SECRET}, cookies=cookies)
        with Fetcher(LIMITS, sessions=Sessions([given])) as fetcher:
            assert fetcher.get(f"{site.url}/p").body == b"end"
    finally:
        other.close()
    assert [set(sent) & {"authorization", "x-key", "cookie"} for sent in there] == [set()]
    assert [(sent["x-key"], sent["cookie"]) for sent in here] == [(TOKEN, f"kept={TOKEN}-c")] * 2
    assert {sent["authorization"].split()[0] for sent in here} == {"Basic"}


def test_a_bearer_token(site: Site) -> None:
    seen: list[dict[str, str]] = []
    site.routes["/p"] = noting(site, seen, Reply(b"x"))
    with Fetcher(LIMITS, sessions=Sessions([Credential(site.url, bearer=SECRET)])) as fetcher:
        fetcher.get(f"{site.url}/p")
    assert seen[0]["authorization"] == f"Bearer {TOKEN}"


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
    site.routes["/p"] = site.routes["/deep/p"] = noting(site, seen, Reply(b"x"))
    with Fetcher(LIMITS, sessions=Sessions([Credential(site.url)])) as fetcher:
        for path in ("/set", "/p", "/deep/p"):
            answer = fetcher.get(f"{site.url}{path}")
            assert "Set-Cookie" not in answer.headers, "it would be in the journal"
    assert [sent["cookie"].split("; ") for sent in seen] == [["all=1"], ["deep=2", "all=1"]]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("127.0.0.1\tFALSE\t/\tFALSE\t1\tname\tv4lue", "has no valid cookie for http://127.0.0.1"),
        ("example.org\tTRUE\t/\tFALSE\t0\tname\tv4lue", "has no valid cookie"),
        ("name=v4lue", "line 2: not a cookie in Netscape format"),
    ],
)
def test_cookie_files_that_are_of_no_use(site: Site, tmp_path: Path, line: str, told: str) -> None:
    place = private(tmp_path / "cookies.txt", f"# Netscape HTTP Cookie File\n{line}\n")
    with pytest.raises(CredentialsError, match=told) as caught:
        read(site.url, Credential(site.url, cookies=place))
    assert "v4lue" not in str(caught.value)
    assert site.hits == []


@pytest.mark.parametrize(
    "text",
    [
        "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tv4lue",
        "\ufeff# Netscape HTTP Cookie File\r\n\r\n127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tv4lue\r\n",
        "127.0.0.1\tFALSE\t/\tFALSE\t99999999999.5\tname\tv4lue\n127.0.0.1\tFALSE\t/\tFALSE\t1\told\tgone",
    ],
    ids=["not for scripts", "of Windows", "parts of a second, and one that has expired"],
)
def test_cookie_files_of_many_programs(site: Site, tmp_path: Path, text: str) -> None:
    seen: list[dict[str, str]] = []
    site.routes["/p"] = noting(site, seen, Reply(b"x"))
    credential = Credential(site.url, cookies=private(tmp_path / "cookies.txt", text))
    with Fetcher(LIMITS, sessions=Sessions([credential])) as fetcher:
        fetcher.get(f"{site.url}/p")
    assert [sent["cookie"] for sent in seen] == ["name=v4lue"]


def test_what_a_page_shows_of_a_secret_is_taken_out(site: Site) -> None:
    """Such as a page that says with what it was asked."""
    echo = page(f"<p>You came with {TOKEN}.<a href='/q?as={TOKEN}'>Go on</a>")
    site.routes["/p"] = Reply(echo.encode(), 200, {"Content-Type": "text/html", "ETag": f'"{TOKEN}"'})
    site.routes["/q?as="] = redirect(f"/r?as={TOKEN}")
    site.routes["/r?as="] = page("<p>End")
    items = list(
        crawl(f"{site.url}/p", LIMITS, lambda due: None, sessions=Sessions([Credential(site.url, bearer=SECRET)]))
    )
    assert [item.url.removeprefix(site.url) for item in items] == ["/p", "/r?as="]  # type: ignore[union-attr]
    assert TOKEN not in repr(items)


def test_what_was_sent_before_is_taken_out_of_answers_that_come_late() -> None:
    redaction = Redaction()
    redaction.learn(["a secret & more", "short"], ["first-value-of-a-cookie"])
    redaction.learn([], [f"value-{number}-of-a-cookie-that-changes" for number in range(199)])
    told = b"|first-value-of-a-cookie|a secret &amp; more|a+secret+%26+more|value-7-of-a-cookie-that-changes|short|"
    assert redaction.of(told) == b"|||||short|"
    redaction.learn([], ["value-199-of-a-cookie-that-changes"])
    assert redaction.of(told) == b"|first-value-of-a-cookie||||short|", "as many as answers may be under way"


# Logging in


@pytest.mark.parametrize("success", [Success(path="/home"), Success(text="Log out"), Success(cookie="sid")])
def test_a_form_is_filled_in_once(door: Callable[..., Door], success: Success) -> None:
    site = door()
    pages, _ = read(f"{site.url}/p0", login(site, success))
    assert pages == ["p0", "p1", "p2", "p3"]
    assert site.logins == 1
    sent = next(request for request in site.requests if request.startswith(b"POST"))
    assert f"Origin: {site.url}".encode() in sent
    assert f"Referer: {site.url}/login".encode() in sent


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"user": "someone"}, "the form came back"),
        ({"other": "x"}, "no form with the fields user, pass, other; found: csrf, go, pass, user"),
        ({"success": Success(cookie="absent")}, "no cookie absent came"),
        ({"success": Success(text="Goodbye")}, "does not have the text 'Goodbye'"),
        ({"success": Success(path="/start")}, "is not at /start"),
    ],
)
def test_a_login_that_fails_stops_everything_at_once(
    door: Callable[..., Door], change: dict[str, object], told: str
) -> None:
    site = door()
    with pytest.raises(LoginFailed, match=told) as caught:
        read(f"{site.url}/p0", login(site, **change))
    assert PASSWORD not in str(caught.value)
    assert len([request for request in site.requests if request.startswith(b"POST")]) <= 1, "or it is locked out"


def test_a_password_is_never_taken_from_the_description(door: Callable[..., Door]) -> None:
    site = door()
    with pytest.raises(CredentialsError, match="the field pass is a password"):
        read(f"{site.url}/p0", login(site, **{"pass": "x", "user": SECRET}))


@pytest.mark.parametrize("where", ["http://127.0.0.2:9/login", "get"])
def test_a_form_is_sent_nowhere_else(site: Site, where: str) -> None:
    change = ("method=post", "method=get") if where == "get" else ("action=/login", f"action={where}")
    site.routes["/login"] = page(FORM.format(csrf="x").replace(*change))
    with pytest.raises(LoginFailed, match="it is not sent"):
        read(f"{site.url}/p", login(site))
    assert site.hits == ["/login"]


# Sessions that end


@pytest.mark.parametrize("how", ["redirect", "401", "form"])
def test_a_session_that_ends_is_begun_again(door: Callable[..., Door], how: str) -> None:
    site = door(pages=6, how=how, lasts=3)
    pages, left_out = read(f"{site.url}/p0", login(site))
    assert pages == [f"p{number}" for number in range(6)]
    assert left_out == {}
    assert site.logins == 2


def test_answers_to_a_session_that_is_over_do_not_end_the_new_one(door: Callable[..., Door]) -> None:
    """Many threads ask when it ends, and some of the answers come after the next login."""
    site = door(pages=1, lasts=5)
    names = [f"leaf{number}" for number in range(30)]
    links = "".join(f"<a href=/{name}>{name}</a>" for name in names)
    site.routes["/p0"] = site.guarded(page(f"<p>Start{links}"))
    site.routes |= {f"/{name}": site.guarded(page(f"<p>{name}")) for name in names}
    sessions, limits = Sessions([login(site)]), CrawlLimits(allow_private=True, timeout=20.0, concurrency=8)
    items = list(crawl(f"{site.url}/p0", limits, lambda due: None, sessions=sessions))
    assert [item.url for item in items if isinstance(item, Page)] == [f"{site.url}/{name}" for name in ["p0", *names]]
    assert site.logins == 2

    session = sessions.of(site.url)
    assert session is not None
    before = session.access(f"{site.url}/", lambda *_: None)  # type: ignore[arg-type, return-value]
    session.take(before.number - 1, f"{site.url}/", ["sid=of-nobody; Path=/"])
    assert session.access(f"{site.url}/", lambda *_: None) == before  # type: ignore[arg-type, return-value]
    session.take(before.number, f"{site.url}/", ["sid=of-nobody; Path=/"])
    assert session.access(f"{site.url}/", lambda *_: None) != before  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("how", ["redirect", "401", "form"])
def test_a_session_that_ends_again_stops_the_build(door: Callable[..., Door], how: str) -> None:
    site = door(pages=9, how=how, lasts=2, later=3)
    with pytest.raises(SessionEnded, match=r"asks to log in at http.*/p\d, although the session was renewed once"):
        read(f"{site.url}/p0", login(site))
    assert site.logins == 2


@pytest.mark.parametrize("how", ["redirect", "401", "form"])
def test_pages_for_others_are_left_out_while_the_session_lives(door: Callable[..., Door], how: str) -> None:
    site = door(pages=3, how=how)
    site.routes["/p0"] = site.guarded(page("<p>Start<a href=/p1>1</a><a href=/admin>2</a><a href=/p2>3</a>"))
    site.routes["/admin"] = {
        "redirect": redirect("/login?next=/admin"),
        "401": Reply(b"", 401),
        "form": page("<p>Change it<form method=post><input type=password name=new></form>"),
    }[how]
    pages, left_out = read(f"{site.url}/p0", login(site))
    assert pages == ["p0", "p1", "p2"]
    assert list(left_out) == ["admin"]
    assert site.logins == 1


def test_a_redirect_that_is_not_followed_is_asked_about(door: Callable[..., Door]) -> None:
    """robots.txt often forbids the login page: without a look at the session all pages would be taken for gone."""
    site = door(pages=5, lasts=2)
    site.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /login\n")
    given = login(site)
    assert given.login
    assert read(f"{site.url}/p0", given)[0] == ["p0", "p1", "p2", "p3", "p4"]
    assert site.logins == 2


@pytest.mark.parametrize("is_rotated", [True, False])
def test_a_token_that_expires_is_read_again(site: Site, tmp_path: Path, is_rotated: bool) -> None:
    valid = [TOKEN]
    path = tmp_path / "token"
    place = private(path, f"{TOKEN}\n")

    def guarded(number: int) -> Callable[[BaseHTTPRequestHandler], None]:
        def route(handler: BaseHTTPRequestHandler) -> None:
            if number == 2 and valid == [TOKEN]:  # it expires now
                valid[0] = f"{TOKEN}-2"
                if is_rotated:
                    path.write_text(valid[0])
            is_known = handler.headers.get("Authorization") == f"Bearer {valid[0]}"
            send(handler, Reply(page(f"<p>{number}<a href=/p{number + 1}>").encode(), 200 if is_known else 401))

        return route

    site.routes |= {f"/p{number}": guarded(number) for number in range(4)}
    start, given = f"{site.url}/p0", Credential(site.url, bearer=place)
    if is_rotated:
        assert read(start, given)[0] == ["p0", "p1", "p2", "p3"]
        return
    with pytest.raises(SessionEnded, match=r"asks to log in at .*/p2: its bearer token must be renewed"):
        read(start, given)


def test_links_that_log_out_are_not_followed(door: Callable[..., Door]) -> None:
    site = door(pages=2)
    ways = "/logout /users/sign_out /x?do=logout /Logout.action /wiki/Special:UserLogout /login?next=/p".split()
    links = "".join(f"<a href='{way}'>x</a>" for way in ways)
    site.routes["/p0"] = site.guarded(page(f"<p>Start{links}<a href=/p1>on</a>"))
    pages, left_out = read(f"{site.url}/p0", login(site))
    assert pages == ["p0", "p1"]
    assert set(left_out.values()) == {"a link that logs out", "the login page"}
    assert len(left_out) == len(ways)
    assert not {"/logout", "/users/sign_out"} & set(site.hits)


def test_lists_behind_the_door_are_read(door: Callable[..., Door]) -> None:
    site = door(pages=1)
    hidden = Reply(b"User-agent: *\nDisallow: /secret\nSitemap: /map.xml\n", 200, {"Content-Type": "text/plain"})
    listing = Reply(b"<urlset><url><loc>/home</loc></url></urlset>", 200, {"Content-Type": "application/xml"})

    def only_inside(reply: Reply) -> Callable[[BaseHTTPRequestHandler], None]:
        return lambda handler: send(handler, reply if "sid=" in str(handler.headers["Cookie"]) else Reply(b"", 401))

    site.routes |= {"/robots.txt": only_inside(hidden), "/map.xml": only_inside(listing)}
    assert read(f"{site.url}/p0", login(site))[0] == ["p0", "home"]


def test_a_start_page_that_refuses_us(site: Site) -> None:
    site.routes["/"] = Reply(b"", 401)
    with pytest.raises(SourceError, match="must be renewed"):
        read(site.url, Credential(site.url, bearer=SECRET))
    assert os.environ["DOOR_SECRET"] == TOKEN


# Builds


def build(index: Path, source: str, *credentials: Credential) -> BuildReport:
    config = BuildConfig(crawl=LIMITS, credentials=credentials)
    return build_index([source], index, DummyEmbedder(), config, progress=Progress(io.StringIO(), "quiet"))


def test_a_source_is_not_read_without_its_credentials_by_mistake(door: Callable[..., Door], tmp_path: Path) -> None:
    site = door(pages=2)
    start, index = f"{site.url}/p0", tmp_path / "index"
    build(index, start, login(site))
    live = (index / "CURRENT").read_text()
    assert not build(index, start, login(site)).published
    with pytest.raises(CredentialsError, match="was read with credentials before, and none are given"):
        build(index, start)
    assert (index / "CURRENT").read_text() == live
    assert build(index, start, Credential(site.url)).documents == 1, "its login page, as anyone sees it"
    build(index, start)


def test_a_login_page_in_the_journal_is_not_taken_for_a_page(door: Callable[..., Door], tmp_path: Path) -> None:
    """As where a build was killed between getting it and looking at it."""
    site = door(pages=2, how="form")
    start, index = f"{site.url}/p0", tmp_path / "index"
    base = base_of(None, [login(site)])
    (index / BUILDING).mkdir(parents=True)
    journal = Journal(index / BUILDING / JOURNAL, base)
    form = page(FORM.format(csrf="x"), "Login").encode()
    journal.put(start, Answer(start, form, "text/html", None, httpx.Headers(), "2026-11-21T00:00:00+00:00"))
    journal.close()
    assert build(index, start, login(site)).documents == 2


# Certificates


@pytest.mark.parametrize("password", ["", "right", "missing", "wrong"])
def test_a_client_certificate_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    mine, key = authority.issue_cert("me@example.org"), tmp_path / "me.key"
    mine.cert_chain_pems[0].write_to_path(tmp_path / "me.pem")
    key.touch(mode=0o600)
    mine.private_key_pem.write_to_path(key)
    if password:
        encryption = BestAvailableEncryption(TOKEN.encode())
        private_key = load_pem_private_key(key.read_bytes(), None)
        key.write_bytes(private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    place = {"right": SECRET, "wrong": InEnvironment("DOOR_PASSWORD")}.get(password)
    given = ClientCertificate(tmp_path / "me.pem", key, place)
    site = Site(tls=context)
    site.pages(index="<p>one<a href=/two>", two="<p>two")
    try:
        with pytest.raises(SourceError, match="cannot read"):
            read(site.url)
        if password in ("", "right"):
            assert read(site.url, Credential(site.url, client_certificate=given))[0] == ["", "two"]
            return
        told = "is encrypted: set key_password" if password == "missing" else "key_password is not that of the key"
        with pytest.raises(CredentialsError, match=told):
            read(site.url, Credential(site.url, client_certificate=given))
        assert site.hits == []
    finally:
        site.close()

"""Keys, roles, and what callers without a key may do."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rag.errors import KeysError, SettingsError
from rag.query.request import Filter
from rag.serving.api_keys import KeyFile, KeyRing, check_exposure
from rag.serving.scope import EVERYTHING, Part, Scope, reader_names
from rag.settings import Settings, load
from tests.web.fakes import FakeRetriever
from tests.web.test_problems import assert_problem
from web.app import create_app
from web.guards import access
from web.openapi import Operation, operations

SEARCH = "/api/v1/search?q=index"
BROWSER = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def make(file: KeyFile, **settings: Any) -> FlaskClient:
    app = create_app(FakeRetriever(), replace(Settings(), keys=str(file.path), **settings))

    @app.post("/write")
    @Operation(summary="Change something.", role="write", responses={200: {}})
    def write() -> dict[str, str]:
        return {"by": access.caller().name}

    return app.test_client()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(key: str, user: str = "anyone") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()}


def test_only_the_hash_of_a_key_is_kept(file: KeyFile) -> None:
    key = file.add("ci", "read")
    assert key.startswith("pl_")
    assert len(key) == 3 + 43  # 32 bytes in base64
    text = file.path.read_text()
    assert key not in text
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [(known.name, known.role) for known in file.read()] == [("ci", "read")]
    assert file.add("other", "read") != key


@pytest.mark.parametrize("which", ["first", "last", "none"])
def test_a_key_is_compared_with_every_one_in_constant_time(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    keys = {"first": file.add("first", "read"), "middle": file.add("middle", "read"), "last": file.add("last", "read")}
    compared: list[str] = []

    def compare(known: str, wanted: str) -> bool:
        compared.append(known)
        return known == wanted

    monkeypatch.setattr("rag.serving.api_keys.hmac.compare_digest", compare)
    found = KeyRing(file.path).find(keys.get(which, "pl_none"))
    assert (found.name if found else "none") == which
    assert compared == [known.sha256 for known in file.read()]


def test_a_file_that_others_may_read_stays_so(file: KeyFile) -> None:
    file.add("one", "read")
    file.path.chmod(0o640)
    file.add("two", "write")
    assert file.path.stat().st_mode & 0o777 == 0o640
    file.remove("one")
    assert [key.name for key in file.read()] == ["two"]


@pytest.mark.parametrize(
    ("name", "role", "key", "words"),
    [
        ("", "read", None, "cannot be called"),
        ("a b", "read", None, "cannot be called"),
        ("x" * 65, "read", None, "cannot be called"),
        ("ci", "admin", None, "role must be one of read, write"),
        ("ci", "read", "x" * 15, "has 15 bytes: it needs at least 16"),
        ("ci", "read", "with a space in its middle", "white space"),
        ("taken", "read", None, "a key called 'taken' already exists"),
        ("ci", "read", "0123456789abcdef", "already exists under another name"),
    ],
)
def test_keys_that_cannot_be_added(file: KeyFile, name: str, role: str, key: str | None, words: str) -> None:
    file.add("taken", "read", "0123456789abcdef")
    before = file.path.read_bytes()
    with pytest.raises(KeysError, match=words):
        file.add(name, role, key)
    assert file.path.read_bytes() == before


def test_removing_an_unknown_key_names_those_there_are(file: KeyFile) -> None:
    with pytest.raises(KeysError, match="no key called 'ci'; there are: none"):
        file.remove("ci")
    file.add("web", "read")
    with pytest.raises(KeysError, match="there are: web"):
        file.remove("ci")


def test_open_reading_on_loopback_without_keys(file: KeyFile) -> None:
    client = make(file)
    assert client.get(SEARCH).status_code == 200
    assert client.get("/", headers=BROWSER).status_code == 200
    refused = client.post("/write")
    assert "role write" in str(assert_problem(refused, 401)["detail"])
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "10.0.0.7", "[2001:db8::1]:8642"])
def test_a_name_that_resolves_to_this_machine_reads_nothing(file: KeyFile, host: str) -> None:
    """DNS rebinding: a page of another site has its own name point here."""
    assert_problem(make(file).get(SEARCH, headers={"Host": host}), 403)
    assert make(file, anonymous="read").get(SEARCH, headers={"Host": host}).status_code == 200
    key = file.add("web", "read")
    assert make(file).get(SEARCH, headers={"Host": host} | bearer(key)).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8642", "127.0.0.1:8642", "[::1]:8642", "[::1]"])
def test_names_of_this_machine(file: KeyFile, host: str) -> None:
    assert make(file).get(SEARCH, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("settings", "with_keys", "status"),
    [
        ({"anonymous": "auto"}, False, 200),
        ({"anonymous": "auto"}, True, 401),
        ({"anonymous": "read"}, True, 200),
        ({"anonymous": "none"}, False, 401),
        ({"anonymous": "auto", "host": "0.0.0.0"}, False, 401),
        ({"anonymous": "read", "host": "0.0.0.0"}, False, 200),
    ],
)
def test_what_anonymous_callers_may_do(file: KeyFile, settings: dict[str, str], with_keys: bool, status: int) -> None:
    if with_keys:
        file.add("ci", "read")
    client = make(file, **settings)
    assert client.get(SEARCH).status_code == status
    assert client.get("/livez").status_code == 200
    with client.get("/static/page.css") as style:
        assert style.status_code == 200
    assert client.post("/write").status_code == 401


def test_roles(file: KeyFile) -> None:
    read, write = file.add("reader", "read"), file.add("writer", "write")
    client = make(file)
    for headers in (bearer(read), bearer(write), basic(read), basic(write), {"Authorization": f"bearer  {read}"}):
        assert client.get(SEARCH, headers=headers).status_code == 200
    assert client.post("/write", headers=bearer(write)).get_json() == {"by": "writer"}
    assert "'reader' has the role read" in str(
        assert_problem(client.post("/write", headers=bearer(read)), 403)["detail"]
    )
    # a browser sends a saved password by itself, whoever made it send the request
    assert_problem(client.post("/write", headers=basic(write)), 401)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong-key-of-good-length",
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xfe").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Digest abc",
        "",
        "Bearer " + "x" * 5000,
        "Bearer \udc80caf\xe9",
    ],
)
@pytest.mark.parametrize("anonymous", ["auto", "read"])
def test_a_wrong_key_is_never_taken_for_none(file: KeyFile, header: str, anonymous: str) -> None:
    file.add("ci", "read")
    response = make(file, anonymous=anonymous).get(
        SEARCH, environ_overrides={"HTTP_AUTHORIZATION": header.encode("utf-8", "surrogateescape").decode("latin-1")}
    )
    assert_problem(response, 401)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_without_keys_none_is_wrong(file: KeyFile) -> None:
    headers = bearer("what some clients must send")
    assert make(file).get(SEARCH, headers=headers).status_code == 200
    assert make(file).post("/write", headers=headers).status_code == 401
    assert make(file, anonymous="none").get(SEARCH, headers=headers).status_code == 401


def test_browsers_are_asked_for_the_key(file: KeyFile) -> None:
    file.add("ci", "read")
    response = make(file).get("/", headers=BROWSER)
    assert (response.status_code, response.mimetype) == (401, "text/html")
    assert response.headers["WWW-Authenticate"].startswith("Basic")


def test_changes_of_the_file_are_followed(file: KeyFile) -> None:
    client = make(file)
    assert client.get(SEARCH).status_code == 200
    key = file.add("ci", "read")
    assert client.get(SEARCH).status_code == 401
    assert client.get(SEARCH, headers=bearer(key)).status_code == 200
    file.remove("ci")
    assert client.get(SEARCH, headers=bearer(key)).status_code == 401


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"version": 2, "keys": []}', b'{"version": 1, "keys": [{"name": "x"}]}']
    + [json.dumps({"version": 1, "keys": [{"name": n, "role": r, "sha256": s, "created": ""}]}).encode()
       for n, r, s in (("a b", "read", "0" * 64), ("a", "root", "0" * 64), ("a", "read", "0"), (1, "read", "0" * 64))],
)  # fmt: skip
def test_a_broken_file_of_keys_opens_nothing(file: KeyFile, content: bytes) -> None:
    client = make(file)
    key = file.add("ci", "read")
    assert client.get(SEARCH, headers=bearer(key)).status_code == 200
    file.path.write_bytes(content)
    assert_problem(client.get(SEARCH, headers=bearer(key)), 503)
    assert_problem(client.get(SEARCH), 503)
    assert client.get("/livez").status_code == 200
    with pytest.raises(KeysError, match="is not a valid key file"):
        file.add("another", "read")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "search.example", ""])
def test_listening_to_others_needs_a_key_or_to_be_said(tmp_path: Path, host: str) -> None:
    def settings(**more: str) -> Any:
        return load({"index": str(tmp_path), "host": host, **more}, environ={})

    with pytest.raises(SettingsError, match="pilotlight keys add NAME, or allow it with --anonymous read"):
        check_exposure(settings())
    check_exposure(settings(anonymous="read"))
    check_exposure(settings(anonymous="none"))
    KeyFile(settings().keys_file).add("ci", "read")
    check_exposure(settings())


@pytest.fixture
def shared(file: KeyFile) -> Flask:
    return make(file, cors_origins="https://docs.example, http://localhost:3000").application


PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


def test_preflight_of_an_allowed_origin(file: KeyFile) -> None:
    file.add("ci", "read")  # a preflight never brings the key
    client = make(file, cors_origins="https://docs.example, http://localhost:3000")
    for origin in ("https://docs.example", "http://localhost:3000"):
        response = client.options("/api/v1/search", headers={"Origin": origin} | PREFLIGHT)
        assert response.status_code == 204
        assert response.headers["Access-Control-Allow-Origin"] == origin
        assert "Authorization" in response.headers["Access-Control-Allow-Headers"]
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
        assert "Origin" in response.headers["Vary"]
        assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "https://docs.example.evil", "null", "http://docs.example"])
def test_other_origins_are_told_nothing(shared: Flask, origin: str) -> None:
    client = shared.test_client()
    for response in (
        client.options("/api/v1/search", headers={"Origin": origin} | PREFLIGHT),
        client.get(SEARCH, headers={"Origin": origin}),
    ):
        assert not [name for name in response.headers.keys() if name.startswith("Access-Control")]  # noqa: SIM118
        assert "Origin" in response.headers["Vary"]


def test_answers_and_errors_may_be_read_by_an_allowed_origin(shared: Flask) -> None:
    client = shared.test_client()
    for path, status in ((SEARCH, 200), ("/api/v1/search", 400), ("/api/v1/nope", 404)):
        response = client.get(path, headers={"Origin": "https://docs.example"})
        assert response.status_code == status
        assert response.headers["Access-Control-Allow-Origin"] == "https://docs.example"
        assert "Retry-After" in response.headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Origin" not in client.get("/", headers={"Origin": "https://docs.example"}).headers


def test_any_origin_never_comes_with_credentials(file: KeyFile) -> None:
    response = make(file, cors_origins="*").get(SEARCH, headers={"Origin": "https://any.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize("text", ["docs.example", "https://docs.example/", "https://Docs.example", "file://", "null"])
def test_what_is_not_an_origin_is_refused(file: KeyFile, text: str) -> None:
    with pytest.raises(SettingsError, match="is not an origin"):
        make(file, cors_origins=text)


SITE = "https://docs.example"


@pytest.fixture
def shown(file: KeyFile) -> dict[str, str]:
    """The Authorization header of a key that pages of SITE show."""
    return bearer(file.add("site", "read", origins=[SITE]))


def test_a_key_in_a_page_searches_from_its_origins_alone(file: KeyFile, shown: dict[str, str]) -> None:
    client = make(file)
    assert client.options("/api/v1/search", headers={"Origin": SITE} | PREFLIGHT).status_code == 204
    answered = client.post("/api/v1/search", json={"query": "index"}, headers={"Origin": SITE} | shown)
    assert answered.status_code == 200
    assert answered.headers["Access-Control-Allow-Origin"] == SITE
    for origin in ("https://evil.example", "https://docs.example.evil", "http://docs.example", "null", ""):
        headers = ({"Origin": origin} if origin else {}) | shown
        refused = client.post("/api/v1/search", json={"query": "index"}, headers=headers)
        assert_problem(refused, 403)
        assert "Access-Control-Allow-Origin" not in refused.headers
        assert (
            "Access-Control-Allow-Origin" not in client.options("/api/v1/search", headers=headers | PREFLIGHT).headers
        )
    retriever = client.application.extensions["retriever"]
    assert len(retriever.requests) == 1


def test_a_key_in_a_page_is_good_for_nothing_else(file: KeyFile, shown: dict[str, str]) -> None:
    app = make(file).application
    client = app.test_client()
    asked = 0
    for rule, method, described in operations(app):
        if described.role is None or rule.endpoint in access.FOR_PAGES:
            continue
        path = rule.build(dict.fromkeys(rule.arguments, "thing"))[1]  # type: ignore[index]
        refused = client.open(path, method=method, headers={"Origin": SITE} | shown)
        assert refused.status_code in (403, 429), rule
        assert "Access-Control-Allow-Origin" not in refused.headers
        asked += 1
    assert asked > 20


def test_readers_of_a_page_are_counted_one_by_one(file: KeyFile, shown: dict[str, str]) -> None:
    client = make(file, rate_limit=0.5)

    def search(address: str) -> int:
        headers = {"Origin": SITE} | shown
        return client.get(SEARCH, headers=headers, environ_base={"REMOTE_ADDR": address}).status_code

    assert [search("192.0.2.1"), search("192.0.2.1"), search("192.0.2.2")] == [200, 429, 200]


def test_a_key_that_is_removed_takes_its_origins_along(file: KeyFile, shown: dict[str, str]) -> None:
    client = make(file)
    file.remove("site")
    told = client.options("/api/v1/search", headers={"Origin": SITE} | PREFLIGHT).headers
    assert "Access-Control-Allow-Origin" not in told


def test_origins_are_kept_and_checked(file: KeyFile) -> None:
    file.add("secret", "read")
    assert "origins" not in file.path.read_text()  # so that earlier versions read it
    file.add("site", "read", origins=[SITE, SITE, "http://localhost:3000"])
    assert [key.origins for key in file.read()] == [(), (SITE, "http://localhost:3000")]
    with pytest.raises(KeysError, match="role must be read"):
        file.add("other", "write", origins=[SITE])
    for origin in ("*", "null", "https://docs.example/", "docs.example"):
        with pytest.raises(KeysError, match="is not an origin"):
            file.add("other", "read", origins=[origin])
    for change in (f'"{SITE}/"', "7"):
        broken = file.path.read_text().replace(f'"{SITE}"', change)
        other = KeyFile(file.path.with_name("broken.json"))
        other.path.write_text(broken)
        with pytest.raises(KeysError, match="not a valid key file"):
            other.read()


def test_a_scope_is_kept_in_the_file(file: KeyFile) -> None:
    wanted = Scope.of(["wiki", "docs"], [Filter.parse({"metadata": {"team": ["b", "a"]}, "path": "/x"})])
    file.add("all", "write")
    file.add("part", "read", scope=wanted)
    assert [key.scope for key in file.read()] == [EVERYTHING, wanted]
    first, second = json.loads(file.path.read_text())["keys"]
    assert "collections" not in first
    assert second["collections"] == ["docs", "wiki"]
    assert second["filter"] == {"path": ["/x"], "metadata": {"team": ["a", "b"]}}


def test_a_scope_of_several_parts_is_kept_in_the_file(file: KeyFile) -> None:
    path, team = Filter(path=("/x",)), Filter.parse({"metadata": {"team": "a"}})
    names = reader_names(["ann"], ["red"])
    wanted = Scope((Part(frozenset({"wiki"}), path, names), Part(None, team, names)))
    file.add("part", "read", scope=wanted)
    file.add("groups", "read", scope=Scope((Part(readers=reader_names([], ["red"])),)))
    first, second = file.read()
    assert first.scope == first.sees == wanted
    assert not second.sees.is_all
    fields = json.loads(file.path.read_text())["keys"][0]
    assert fields["any_of"] == [
        {"collections": ["wiki"], "filter": {"path": ["/x"]}, "readers": ["group:red", "user:ann"]},
        {"filter": {"metadata": {"team": ["a"]}}, "readers": ["group:red", "user:ann"]},
    ]
    older = [{name: value for name, value in part.items() if name != "readers"} for part in fields["any_of"]]
    fields |= {"any_of": older, "readers": ["group:red", "user:ann"]}  # as earlier versions wrote it
    file.path.write_text(json.dumps({"version": 1, "keys": [fields]}))
    assert file.read()[0].scope == wanted


def test_a_key_that_is_passed_on_is_in_no_access_list_unless_it_says_so(file: KeyFile) -> None:
    file.add("operator", "read", scope=Scope.of(["wiki"]))
    file.add("bot", "read", scope=Scope.of(["wiki"], [Filter(path=("/x",))]))
    file.add("page", "read", origins=[SITE])
    assert [key.sees.parts[0].readers for key in file.read()] == [None, frozenset(), frozenset()]


@pytest.mark.parametrize(
    ("role", "scope", "said"),
    [
        ("write", Scope.of(None, [Filter(language=("en",))]), "a collection of its own"),
        ("read", Scope.of(["../x"]), "not a name that a collection can have"),
    ],
)
def test_a_scope_that_cannot_be(file: KeyFile, role: str, scope: Scope, said: str) -> None:
    with pytest.raises(KeysError, match=said):
        file.add("part", role, scope=scope)
    assert not file.path.exists() or not file.read()


@pytest.mark.parametrize(
    "changed",
    [
        {"collections": "wiki"},
        {"collections": [1]},
        {"filter": {"team": "x"}},
        {"filter": 1},
        {"any_of": []},
        {"any_of": {}},
        {"any_of": [[]]},
        {"any_of": [{"team": "x"}]},
        {"readers": "group:x"},
    ],
)
def test_a_file_whose_scopes_cannot_be_read_lets_nobody_in(file: KeyFile, changed: dict[str, Any]) -> None:
    file.add("part", "read", scope=Scope.of(None, [Filter(language=("en",))]))
    content = json.loads(file.path.read_text())
    content["keys"][0] |= changed
    file.path.write_text(json.dumps(content))
    with pytest.raises(KeysError, match="not a valid key file"):
        file.read()


def test_what_tells_of_the_whole_server_is_not_for_a_part(file: KeyFile) -> None:
    whole, part = file.add("whole", "read"), file.add("part", "read", scope=Scope.of(["default"]))
    client = make(file)
    for path in ("/metrics", "/status"):
        assert client.get(path, headers=bearer(whole)).status_code == 200
        assert_problem(client.get(path, headers=bearer(part)), 403)
    assert client.get(SEARCH, headers=bearer(part)).status_code == 200
    assert_problem(client.get(f"{SEARCH}&collection=notes", headers=bearer(part)), 404)
    assert client.get(f"{SEARCH}&collection=notes", headers=bearer(whole)).status_code == 200

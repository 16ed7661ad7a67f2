"""Keys, roles, and what callers without a key may do."""

import base64
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from rag.access import Grant, KeyFile, Scope, check_exposure, reader_names
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter
from rag.settings import Settings, load
from tests.web.fakes import FakeRetriever
from tests.web.test_problems import assert_problem
from web.app import create_app
from web.guards import access
from web.openapi import PUBLIC, Operation, operation_of, operations

SEARCH = "/api/v1/search?q=index"


@pytest.fixture
def file(tmp_path):
    return KeyFile(tmp_path / "keys.json")


def make(file: KeyFile, **settings: Any) -> FlaskClient:
    app = create_app(FakeRetriever(), replace(Settings(), keys=str(file.path), **settings))

    @app.post("/write")
    @Operation(role="write", responses={200: {}})
    def write() -> dict[str, str]:
        return {"by": access.caller().name}

    return app.test_client()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(key: str, user: str = "anyone") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()}


def test_a_key_is_kept_as_its_hash(file):
    file = KeyFile(file.path.parent / "a" / "b" / "keys.json")  # folders are made
    keys = [file.add(name, "read") for name in ("first", "last")]
    assert all(key.startswith("pl_") and len(key) == 3 + 43 for key in keys)  # 32 bytes in base64
    assert not any(key in file.path.read_text() for key in keys)
    assert file.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "role", "more", "words"),
    [
        ("", "read", {}, "is not a key name"),
        ("a b", "read", {}, "is not a key name"),
        ("ci", "admin", {}, "role must be one of read, write"),
        ("ci", "read", {"key": "x" * 15}, "has 15 bytes: it needs at least 16"),
        ("ci", "read", {"key": "with a space in its middle"}, "white space"),
        ("taken", "read", {}, "a key called 'taken' already exists"),
        ("ci", "read", {"key": "0123456789abcdef"}, "already exists under another name"),
        ("ci", "write", {"origins": ["https://docs.example"]}, "role must be read"),
        ("ci", "read", {"origins": ["https://docs.example/"]}, "is not an origin"),
        ("ci", "write", {"grant": Grant(None, Filter(language=("en",)))}, "a separate collection"),
        ("ci", "read", {"grant": Grant(frozenset({"../x"}))}, "not a valid collection name"),
        ("x" * 99, "read", {}, "'x{80}' is not a key name"),
        ("ci", "x" * 99, {}, r"not 'x{80}'\Z"),
        ("ci", "read", {"grant": Grant(frozenset({"X" * 99}))}, r"\A'X{80}' is not a valid"),
        ("ci", "read", {"origins": ["x" * 99]}, r"\A'x{80}' is not an origin"),
    ],
)
def test_keys_that_cannot_be_added(file, name, role, more, words):
    file.add("taken", "read", "0123456789abcdef")
    before = file.path.read_bytes()
    with pytest.raises(KeysError, match=words):
        file.add(name, role, **more)
    with pytest.raises(KeysError, match=r"no key called 'x{80}'; there are: taken\Z"):
        file.remove("x" * 99)
    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "with_keys", "host", "status"),
    [
        ({"anonymous": "auto"}, False, "localhost", 200),
        ({"anonymous": "auto"}, False, "[::1]:8642", 200),
        ({"anonymous": "auto"}, False, "evil.example:8642", 403),  # a page of another site has its name point here
        ({"anonymous": "auto"}, False, "10.0.0.7", 403),
        ({"anonymous": "auto"}, True, "localhost", 401),
        ({"anonymous": "read"}, True, "evil.example", 200),
        ({"anonymous": "none"}, False, "localhost", 401),
        ({"anonymous": "auto", "host": "0.0.0.0"}, False, "localhost", 401),
        ({"anonymous": "read", "host": "0.0.0.0"}, False, "localhost", 200),
    ],
)
def test_what_callers_without_a_key_may_do(file, settings, with_keys, host, status):
    key = file.add("ci", "read") if with_keys else "what some clients must send"
    client = make(file, **settings)
    assert client.get(SEARCH, headers={"Host": host}).status_code == status
    assert client.get(SEARCH, headers={"Host": host} | bearer(key)).status_code == (200 if with_keys else status)
    assert client.get("/livez").status_code == 200
    with client.get("/static/page.css") as style:
        assert style.status_code == 200
    refused = client.post("/write")
    assert "role write" in str(assert_problem(refused, 401)["detail"])
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    if status == 401:  # a browser is asked for the key
        page = client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (page.status_code, page.mimetype) == (401, "text/html")
        assert page.headers["WWW-Authenticate"].startswith("Basic")


def test_roles(file):
    read, write = file.add("reader", "read"), file.add("writer", "write")
    client = make(file)
    for headers in (bearer(read), bearer(write), basic(read), basic(write), {"Authorization": f"bearer  {read}"}):
        assert client.get(SEARCH, headers=headers).status_code == 200
    assert client.post("/write", headers=bearer(write)).get_json() == {"by": "writer"}
    assert "'reader' has the role read" in str(
        assert_problem(client.post("/write", headers=bearer(read)), 403)["detail"]
    )
    # a browser sends a saved password by itself, whoever made it send the request
    refused = assert_problem(client.post("/write", headers=basic(write)), 401)
    assert refused["detail"] == "The Authorization header must be Bearer KEY."
    refused = assert_problem(client.get(SEARCH, headers={"Authorization": "Digest abc"}), 401)
    assert "or Basic with the key as the password" in str(refused["detail"])


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
def test_a_wrong_key_is_never_taken_for_none(file, header, anonymous):
    file.add("ci", "read")
    response = make(file, anonymous=anonymous).get(
        SEARCH, environ_overrides={"HTTP_AUTHORIZATION": header.encode("utf-8", "surrogateescape").decode("latin-1")}
    )
    assert_problem(response, 401)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_changes_of_the_file_are_followed(file):
    client = make(file)
    assert client.get(SEARCH).status_code == 200
    key = file.add("ci", "read")
    assert client.get(SEARCH).status_code == 401
    assert client.get(SEARCH, headers=bearer(key)).status_code == 200
    file.path.chmod(0o640)
    assert file.remove("ci").name == "ci"
    assert client.get(SEARCH, headers=bearer(key)).status_code == 401
    assert file.path.stat().st_mode & 0o777 == 0o640  # as its owner set it


def test_a_file_is_read_again_only_after_a_change(file, monkeypatch):
    file.add("ci", "read")
    reads = []
    monkeypatch.setattr(file._cached_keys, "_read", lambda: reads.append(file.path.stat().st_ino))
    for _ in range(3):
        file.current()
    file.add("other", "read")
    file.current()
    assert len(reads) == len(set(reads)) == 2


ROW = {"name": "a", "role": "read", "sha256": "0" * 64, "created": ""}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b'{"version": 2, "keys": []}', b'{"version": 1, "keys": [{"name": "x"}]}']
    + [b'{"version": 1, "keys": [' + b" " * 2_000_000 + b"]}"]
    + [
        json.dumps({"version": 1, "keys": [ROW | wrong]}).encode()
        for wrong in (
            {"name": "a b"},
            {"role": "root"},
            {"sha256": "0"},
            {"origins": [7]},
            {"filter": {"team": "x"}},
            {"any_of": [{}]},
            {"readers": "group:x"},
            {"origins": ["https://a.test/"]},
            {"origins": ["https://a.test"], "role": "write"},
        )
    ]
    + [
        pytest.param(
            json.dumps({"version": 1, "keys": [ROW | {"name": f"k{number}"} for number in range(12_000)]}).encode(),
            id="over 1 MB",
        )
    ],
)
def test_a_broken_file_of_keys_opens_nothing(file, content):
    client = make(file)
    key = file.add("ci", "read")
    assert client.get(SEARCH, headers=bearer(key)).status_code == 200
    file.path.write_bytes(content)
    assert_problem(client.get(SEARCH, headers=bearer(key)), 503)
    assert_problem(client.get(SEARCH), 503)
    assert client.get("/livez").status_code == 200
    with pytest.raises(KeysError, match="is not a valid key file"):
        file.add("another", "read")


def test_a_file_of_keys_out_of_reach_opens_nothing(file):
    file.path.touch()
    assert_problem(make(KeyFile(file.path / "keys.json")).get(SEARCH), 503)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "search.example", ""])
def test_listening_to_others_needs_a_key_or_to_be_said(tmp_path, host):
    def settings(**more: str) -> Any:
        return load({"index": str(tmp_path), "host": host, **more}, environ={})

    with pytest.raises(SettingsError, match="pilotlight keys add NAME, or allow it with --anonymous read"):
        check_exposure(settings())
    check_exposure(settings(anonymous="read"))
    check_exposure(settings(anonymous="none"))
    KeyFile(settings().keys_file).add("ci", "read")
    check_exposure(settings())


PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


@pytest.mark.parametrize(
    "origin", ["https://docs.example", "https://evil.example", "https://docs.example.evil", "null"]
)
@pytest.mark.parametrize("allowed", ["https://docs.example, http://localhost:3000", "*"])
def test_other_origins_read_what_they_are_allowed_and_never_with_credentials(file, origin, allowed):
    client = make(file, cors_origins=allowed, anonymous="read")
    expected = "*" if allowed == "*" else origin if origin == "https://docs.example" else None
    preflight = client.options("/api/v1/search", headers={"Origin": origin} | PREFLIGHT)  # which never brings the key
    assert (preflight.status_code == 204) == (expected is not None)
    assert expected is None or "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    for path, status in ((SEARCH, 200), ("/api/v1/search", 400), ("/api/v1/nope", 404)):
        response = client.get(path, headers={"Origin": origin})
        assert response.status_code == status
        assert response.headers.get("Access-Control-Allow-Origin") == expected
        assert "Access-Control-Allow-Credentials" not in response.headers
        assert ("Origin" in response.headers.get("Vary", "")) == (allowed != "*")
    page = client.get("/", headers={"Origin": origin})
    assert ("Access-Control-Allow-Origin" in page.headers, "Origin" in page.headers.get("Vary", "")) == (False, False)
    with pytest.raises(SettingsError, match="is not an origin"):
        make(file, cors_origins=f"{allowed}, https://docs.example/")


SITE = "https://docs.example"


@pytest.fixture
def shown(file):
    """The Authorization header of a key that pages of SITE show."""
    return bearer(file.add("site", "read", origins=[SITE]))


def test_a_key_in_a_page_searches_from_its_origins_alone(file, shown):
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
    assert len(client.application.extensions["retriever"].requests) == 1
    file.remove("site")
    told = client.options("/api/v1/search", headers={"Origin": SITE} | PREFLIGHT).headers
    assert "Access-Control-Allow-Origin" not in told


def test_a_key_in_a_page_is_good_for_nothing_else(file, shown):
    app = make(file).application
    client = app.test_client()
    asked = 0
    for rule, method, described in operations(app):
        if described.role is None or rule.endpoint in access.FOR_PAGES:
            continue
        path = rule.build(dict.fromkeys(rule.arguments, "thing"))[1]
        refused = client.open(path, method=method, headers={"Origin": SITE} | shown)
        assert refused.status_code in (403, 429), rule
        assert "Access-Control-Allow-Origin" not in refused.headers
        asked += 1
    assert asked > 20


def test_what_a_key_is_for_is_kept_in_the_file(file):
    wanted = Grant(frozenset({"wiki"}), Filter(path=("/x",)), reader_names(["ann"], ["red"]))
    file.add("part", "read", grant=wanted)
    assert file.read()[0].grant == wanted
    assert file.read()[0].readable == Scope((wanted,))
    fields = json.loads(file.path.read_text())["keys"][0]
    assert fields["readers"] == ["group:red", "user:ann"]


def test_a_scope_is_added_to_the_filter_of_a_request():
    listed, below, english = Filter(readers=frozenset({"user:ann"})), Filter(path=("/x",)), Filter(language=("en",))
    for only, allowed in ((None, listed), (below, below & listed)):
        scope = Scope((Grant(frozenset({"wiki"}), only, listed.readers),))
        assert scope.narrowed("wiki", None) == allowed
        assert scope.narrowed("wiki", english) == english & allowed
    assert (Scope().narrowed("wiki", english), Scope().narrowed("wiki", None)) == (english, None)


def test_a_key_that_is_passed_on_is_in_no_access_list_unless_it_says_so(file):
    file.add("operator", "read", grant=Grant(frozenset({"wiki"})))
    file.add("bot", "read", grant=Grant(frozenset({"wiki"}), Filter(path=("/x",))))
    file.add("page", "read", origins=[SITE])
    assert [key.readable.grants[0].readers for key in file.read()] == [None, frozenset(), frozenset()]


def test_probes_name_collections_only_to_callers_who_may_search(file):
    def named(client, **headers):
        answer = client.get("/readyz", headers=headers)
        return answer.status_code, [each["name"] for each in answer.json["collections"]]

    everything = named(make(file))
    assert everything[1]
    assert named(make(file), Host="evil.example") == (200, [])
    whole, part = file.add("whole", "read"), file.add("part", "read", grant=Grant(frozenset({"default"})))
    client = make(file)
    assert named(client) == named(client, **bearer("wrong-key-of-good-length")) == (200, [])
    assert named(client, **bearer(whole)) == everything
    assert named(client, **bearer(part)) == (200, ["default"])
    assert named(make(file, anonymous="read")) == everything
    file.path.write_text("{")
    assert named(client, **bearer(whole)) == (200, [])


def test_what_tells_of_the_whole_server_is_not_for_a_part(file):
    whole, part = file.add("whole", "read"), file.add("part", "read", grant=Grant(frozenset({"default"})))
    client = make(file)
    for path in ("/metrics", "/status"):
        assert client.get(path, headers=bearer(whole)).status_code == 200
        assert_problem(client.get(path, headers=bearer(part)), 403)
    assert client.get(SEARCH, headers=bearer(part)).status_code == 200
    assert_problem(client.get(f"{SEARCH}&collection=notes", headers=bearer(part)), 404)
    assert client.get(f"{SEARCH}&collection=notes", headers=bearer(whole)).status_code == 200


def test_the_whole_server_is_shown_without_a_key_unless_a_document_has_readers(file):
    client = make(file, anonymous="read")
    retriever = client.application.extensions["retriever"]
    assert client.get("/status").status_code == 200
    facts = retriever.status()
    facts["collections"].append({"name": "closed", "restricted": True})
    retriever.status = lambda: facts
    refused = assert_problem(client.get("/status"), 403)
    assert str(refused["detail"]).startswith("A caller without a key may see only part")
    assert client.get("/status", headers=bearer(file.add("whole", "read"))).status_code == 200


@pytest.mark.parametrize("anonymous", ["auto", "read"])
def test_an_address_is_barred_for_a_while_by_wrong_keys_alone(file, monkeypatch, anonymous):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("web.guards.limits.time", SimpleNamespace(monotonic=lambda: clock.now))
    good, client = bearer(file.add("ci", "read")), make(file, anonymous=anonymous)

    def asked(headers: dict[str, str], address: str = "192.0.2.1") -> Any:
        return client.post("/write", headers=headers, environ_overrides={"REMOTE_ADDR": address})

    assert [asked(good).status_code for _ in range(12)] == [403] * 12
    refused = [asked(bearer("wrong-key-of-good-length")) for _ in range(12)]
    assert [each.status_code for each in refused[:9]] == [401] * 9
    assert refused[-1].status_code == 429
    assert refused[-1].headers["Retry-After"] == "1"
    assert (asked(good).status_code, asked({}, "192.0.2.2").status_code) == (403, 401)
    clock.now += 1
    assert asked(bearer("wrong-key-of-good-length")).status_code == 401


PROBES = {"/livez", "/readyz"}


@pytest.fixture
def mapped(file):
    file.add("reader", "read", "reader-0123456789")
    file.add("writer", "write", "writer-0123456789")
    return create_app(FakeRetriever(), replace(Settings(), keys=str(file.path)))


def address(rule: Rule) -> str:
    return rule.build(dict.fromkeys(rule.arguments, "thing"))[1]


def test_every_route_says_its_role(mapped):
    for rule in mapped.url_map.iter_rules():
        if rule.endpoint not in PUBLIC:
            assert operation_of(mapped.view_functions[rule.endpoint]), f"{rule} has no @operation"
    assert {rule.rule for rule, _, described in operations(mapped) if described.role is None} == PROBES


def test_every_route_asks_for_its_role(mapped):
    client = mapped.test_client()
    for number, (rule, method, described) in enumerate(operations(mapped)):
        path = address(rule)
        if described.role is None:
            continue
        client.environ_base["REMOTE_ADDR"] = f"192.0.2.{number}"  # one that is refused too often is not asked any more
        assert_problem(client.open(path, method=method), 401)
        assert_problem(client.open(path, method=method, headers={"Authorization": "Bearer wrong-0123456789"}), 401)
        if described.role == "write":
            assert_problem(client.open(path, method=method, headers=bearer("reader-0123456789")), 403)
            assert_problem(client.open(path, method=method, headers=basic("writer-0123456789")), 401)
        elif described.operator:  # which changes nothing, so that a browser may ask for it
            assert_problem(client.open(path, method=method, headers=bearer("reader-0123456789")), 403)
            with client.open(path, method=method, headers=basic("writer-0123456789")) as answer:
                assert answer.status_code not in (401, 403), path
        else:
            with client.open(path, method=method, headers=bearer("reader-0123456789")) as answer:
                assert answer.status_code not in (401, 403), path

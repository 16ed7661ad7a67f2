"""Users whom a proxy or a token names: who is believed, and what the rules give them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from rag.access import EVERYTHING, NOTHING, AccessRules, Grant, KeyFile, Scope, check_exposure, reader_names
from rag.errors import SettingsError
from rag.query.request import Filter
from rag.settings import Settings, load
from tests.web.fakes import FakeRetriever
from tests.web.guards.test_access import bearer
from tests.web.test_problems import assert_problem
from web.app import create_app
from web.guards.access import caller
from web.openapi import Operation

RULES = """
[settings]
user_header = "X-Forwarded-User"

[[access]]
group = ["red", "blue"]
collections = ["default"]
filter = { metadata = { team = "red" } }

[[access]]
group = "blue"
collections = ["notes"]

[[access]]
user = "ann"
collections = ["ann"]
everything = true
role = "write"

[[access]]
group = "admins"
everything = true
role = "write"
"""
SECRET = "s3cret-of-the-proxy"
SEARCH = "/api/v1/search?q=index"


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "pilotlight.toml"
    path.write_text(RULES)
    return path


def make(rules: Path, **settings: Any) -> FlaskClient:
    given = {"user_header": "X-Forwarded-User", "user_proxies": "127.0.0.1", **settings}
    known = replace(
        Settings(), rules=str(rules), keys=str(rules.with_name("keys.json")), index=str(rules.parent), **given
    )
    app = create_app(FakeRetriever(), known)

    def told() -> dict[str, Any]:
        found = caller()
        return {"name": found.name, "role": found.role, "all": found.scope.is_all}

    app.get("/who")(Operation(role="read", responses={200: {}})(told))
    app.post("/change")(Operation(role="write", responses={200: {}})(lambda: told()))
    return app.test_client()


def named(user: str, groups: str = "", **more: str) -> dict[str, str]:
    return {"X-Forwarded-User": user, "X-Forwarded-Groups": groups, **more}


def test_a_trusted_proxy_names_the_user(rules):
    client = make(rules)
    reply = client.get("/who", headers=named("bob", "other, red"))
    assert reply.json == {"name": "user:bob", "role": "read", "all": False}
    assert client.get(SEARCH, headers=named("bob", "red")).status_code == 200
    assert client.get("/who", headers=named("zoe", "admins")).json == {"name": "user:zoe", "role": "write", "all": True}
    assert_problem(client.get("/status", headers=named("bob", "red")), 403)
    assert client.get("/status", headers=named("zoe", "admins")).status_code == 200


def test_without_a_rule_there_is_no_access(rules):
    client = make(rules)
    for _ in range(30):  # a user is not an address: nobody else behind the proxy is held up
        reply = client.get("/who", headers=named("eve", "green"))
        assert_problem(reply, 403)
        assert "The user 'eve' has no access" in reply.text
    assert client.get("/who", headers=named("bob", "red")).status_code == 200
    assert_problem(client.get("/who"), 401)


@pytest.mark.parametrize("peer", ["10.0.0.9", "::1", "203.0.113.7", "", "unix:"])
def test_nobody_else_is_believed(rules, peer):
    client = make(rules)
    key = KeyFile(rules.with_name("keys.json")).add("bot", "read")
    for more in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Real-Ip": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}):
        headers = named("zoe", "admins", **more)
        assert_problem(client.get("/who", headers=headers, environ_base={"REMOTE_ADDR": peer}), 401)
        reply = client.get("/who", headers=headers | bearer(key), environ_base={"REMOTE_ADDR": peer})
        assert reply.json["name"] == "bot"


def test_the_peer_counts_and_not_what_a_header_says_of_it(rules):
    """With `proxies`, the address of the client is taken from a header; the trust in the proxy is not."""
    client = make(rules, proxies=1)
    headers = named("bob", "red")
    through = headers | {"X-Forwarded-For": "203.0.113.7"}
    assert client.get("/who", headers=through, environ_base={"REMOTE_ADDR": "127.0.0.1"}).status_code == 200
    forged = headers | {"X-Forwarded-For": "127.0.0.1"}
    assert_problem(client.get("/who", headers=forged, environ_base={"REMOTE_ADDR": "203.0.113.7"}), 401)


@pytest.mark.parametrize(
    ("networks", "peer", "believed"),
    [
        ("10.0.0.0/8, fd00::/64", "10.3.2.1", True),
        ("10.0.0.0/8, fd00::/64", "fd00::7", True),
        ("10.0.0.0/8", "::ffff:10.3.2.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("::ffff:0:0/96", "10.3.2.1", False),
    ],
)
def test_networks_of_proxies(rules, networks, peer, believed):
    client = make(rules, user_proxies=networks)
    reply = client.get("/who", headers=named("bob", "red"), environ_base={"REMOTE_ADDR": peer})
    assert reply.status_code == (200 if believed else 401)


def test_a_secret_of_the_proxy(rules):
    client = make(rules, proxy_secret=SECRET, user_proxies="")
    assert client.get("/who", headers=named("bob", "red") | {"X-Proxy-Secret": SECRET}).status_code == 200
    for wrong in ("", SECRET[:-1], SECRET + "x", "ü" * 20):
        headers = named("bob", "red") | {"X-Proxy-Secret": wrong.encode().decode("latin-1")}
        assert_problem(client.get("/who", headers=headers, environ_base={"REMOTE_ADDR": f"10.9.8.{len(wrong)}"}), 401)
    both = make(rules, proxy_secret=SECRET)
    headers = named("bob", "red") | {"X-Proxy-Secret": SECRET}
    assert both.get("/who", headers=headers).status_code == 200
    assert_problem(both.get("/who", headers=headers, environ_base={"REMOTE_ADDR": "10.0.0.9"}), 401)
    assert_problem(both.get("/who", headers=named("bob", "red")), 401)


@pytest.mark.parametrize("user", ["a,b", "ann, zoe", "x" * 300, "\xff\xfe", "a\x85b"])
def test_a_name_that_is_none_is_nobody(rules, user):
    """Two headers of one name come as one with a comma: whose is whose cannot be told."""
    client = make(rules, anonymous="read")
    assert_problem(client.get("/who", headers=named(user, "admins")), 401)
    assert client.get("/who").status_code == 200
    reply = client.get("/who", headers=named("zoë".encode().decode("latin-1"), "admins"))
    assert reply.json["name"] == "user:zoë"
    for length, groups, status in ((256, 256, 200), (257, 256, 401), (256, 257, 401)):
        most = named("x" * length, ",".join(["admins", *map(str, range(groups - 1))]))
        assert client.get("/who", headers=most).status_code == status


def test_groups_add_up_and_only_some_may_be_changed(rules):
    directory = AccessRules(rules)
    red = Grant(frozenset({"default"}), Filter.parse({"metadata": {"team": "red"}}))
    red_names, both_names = reader_names(["ann"], ["red"]), reader_names(["bob"], ["red", "blue"])
    notes, written = Grant(frozenset({"notes"}), None, both_names), Grant(frozenset({"ann"}))
    assert directory.rights("bob", ("green",)) == (NOTHING, NOTHING)
    assert directory.rights("bob", ("red", "blue")) == (Scope((replace(red, readers=both_names), notes)), NOTHING)
    of_ann = Scope((replace(red, readers=red_names), written)), Scope((written,))
    assert directory.rights("ann", ("red",)) == of_ann
    readable, writable = directory.rights("zoe", ("admins", "red"))
    assert (readable.is_all, writable) == (True, EVERYTHING)
    assert directory.rights("red") == (NOTHING, NOTHING)  # users and groups are not the same
    rules.write_text(RULES + "[[access]]\neverybody = true\ncollections = ['open']\n")
    anybody = Grant(frozenset({"open"}), None, reader_names(["red"], []))
    assert directory.rights("red") == (Scope((anybody,)), NOTHING)


def test_rules_are_read_again(rules):
    client = make(rules)
    assert client.get("/who", headers=named("bob", "red")).status_code == 200
    rules.write_text(RULES.replace("red", "pink"))
    assert_problem(client.get("/who", headers=named("bob", "red")), 403)
    for broken in ("[[access", "[[access]]\nuser = 'bob'\n", "access = ['bob']", "access = 'bob'"):
        rules.write_text(broken)
        assert_problem(client.get("/who", headers=named("bob", "pink")), 503)
    rules.unlink()
    assert_problem(client.get("/who", headers=named("bob", "pink")), 503)
    rules.write_text(RULES)
    assert client.get("/who", headers=named("bob", "red")).status_code == 200


def test_a_page_of_another_site_changes_nothing_in_a_users_name(rules):
    """The proxy knows a browser by its cookie, which a form of another site may make it send."""
    client, headers = make(rules), named("ann")
    for more in ({}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, {"Sec-Fetch-Site": "none"}):
        assert client.post("/change", headers=headers | more).json["name"] == "user:ann"
    for more in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
    ):
        assert_problem(client.post("/change", headers=headers | more), 403)
    assert_problem(client.post("/change", headers=named("bob", "red")), 403)


def test_with_users_no_one_is_let_in_for_being_near(rules):
    """The proxy is on this machine too, and passes on whoever comes."""
    client = make(rules)
    assert_problem(client.get("/who", headers={"Host": "127.0.0.1:8642"}), 401)
    readyz = client.get("/readyz")
    assert readyz.json["collections"] == []
    check_exposure(load({"host": "0.0.0.0", "index": str(rules.parent), "user_header": "X-User"}, {}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user_proxies": ""}, "--user-proxies"),
        ({"user_proxies": "10.0.0.1/8"}, "is not an address or a network"),
        ({"user_header": "X_User"}, "not the name of a header"),
        ({"groups_header": "X-Forwarded-user"}, "must name two headers"),
        ({"proxy_secret": "short"}, "at least 16"),
        ({"rules": ""}, "user_header needs access rules"),
        ({"rules": "/nowhere/x.toml"}, r"cannot read /nowhere/x.toml: No such file or directory\Z"),
    ],
)
def test_settings_that_cannot_be(rules, given, said):
    settings = {"rules": str(rules), "user_header": "X-Forwarded-User", "user_proxies": "127.0.0.1", **given}
    with pytest.raises(SettingsError, match=said):
        create_app(FakeRetriever(), replace(Settings(), **settings))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("collections = ['x']", "needs user, group"),
        ("user = 'x'", "needs collections, filter"),
        *((f"user = {each}\ncollections = ['x']", "user must be a text") for each in ("7", "[7]", "['x', ' ']", "' '")),
        ("user = 'x'\ncollections = ['../x']", "not a valid collection name"),
        (f"user = 'x'\ncollections = ['{'X' * 99}']", "'X{80}' is not a valid collection name"),
        ("user = 'x'\nfilter = { team = 'x' }", "is not a filter field"),
        ("user = 'x'\nfilter = { language = 'en' }\nrole = 'write'", "needs everything = true"),
        ("user = 'x'\ncollections = ['x']\nrole = 'admin'", "role must be one of"),
        ("user = 'x'\neverything = 'yes'", "everything must be true or false"),
        ("user = 'x'\neverything = true\nfilter = { language = 'en' }", "cannot be combined with filter"),
        ("usr = 'x'\ncollections = ['x']", "usr"),
        ("everybody = 'x'\ncollections = ['x']", "everybody must be true or false"),
        ("user = 'x'\ngroup = []\ncollections = ['x']", "a list must not be empty"),
        ("user = 'x'\ncollections = ['x']\nfilter = {}", "filter must have a field"),
    ],
)
def test_rules_that_cannot_be(rules, table, said):
    rules.write_text(f"[[access]]\n{table}\n")
    with pytest.raises(SettingsError, match=said) as caught:
        AccessRules(rules)
    assert f"{rules}: access 1" in str(caught.value)

"""Every route there is: it has a role, asks for it, and errs with a problem."""

from dataclasses import replace

import pytest
from werkzeug.routing import Rule

from rag.serving.access import KeyFile
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from tests.web.test_problems import assert_problem
from web.app import create_app
from web.openapi import PUBLIC, operation_of, operations

PROBES = {"/livez", "/readyz"}


@pytest.fixture
def file(tmp_path):
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def app(file):
    file.add("reader", "read", "reader-0123456789")
    file.add("writer", "write", "writer-0123456789")
    return create_app(FakeRetriever(), replace(Settings(), keys=str(file.path)))


@pytest.fixture
def client(app):
    return app.test_client()


def address(rule: Rule) -> str:
    return rule.build(dict.fromkeys(rule.arguments, "thing"))[1]


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-0123456789"}


def test_every_route_says_its_role(app):
    for rule in app.url_map.iter_rules():
        if rule.endpoint not in PUBLIC:
            assert operation_of(app.view_functions[rule.endpoint]), f"{rule} has no @operation"
    assert {rule.rule for rule, _, described in operations(app) if described.role is None} == PROBES


def test_what_changes_something_takes_write(app):
    roles = {(rule.rule, method): described.role for rule, method, described in operations(app)}
    for (rule, method), role in roles.items():
        assert method != "GET" or role != "write" or "index" in rule or "changes" in rule, rule
        assert method in ("GET", "POST") or role == "write", rule
    assert all(role == "write" for (rule, _), role in roles.items() if rule.startswith("/api/v1/index"))


WRITER_BY_PASSWORD = {"Authorization": "Basic YTp3cml0ZXItMDEyMzQ1Njc4OQ=="}  # a:writer-0123456789


def test_every_route_asks_for_its_role(app, client):
    for number, (rule, method, described) in enumerate(operations(app)):
        path = address(rule)
        if described.role is None:
            continue
        client.environ_base["REMOTE_ADDR"] = f"192.0.2.{number}"  # one that is refused too often is not asked any more
        assert_problem(client.open(path, method=method), 401)
        assert_problem(client.open(path, method=method, headers={"Authorization": "Bearer wrong-0123456789"}), 401)
        if described.role == "write":
            assert_problem(client.open(path, method=method, headers=bearer("reader")), 403)
            assert_problem(client.open(path, method=method, headers=WRITER_BY_PASSWORD), 401)
        elif described.operator:  # which changes nothing, so that a browser may ask for it
            assert_problem(client.open(path, method=method, headers=bearer("reader")), 403)
            with client.open(path, method=method, headers=WRITER_BY_PASSWORD) as answer:
                assert answer.status_code not in (401, 403), path
        else:
            with client.open(path, method=method, headers=bearer("reader")) as answer:
                assert answer.status_code not in (401, 403), path


def test_probes_and_files_of_the_page_are_open(client):
    for path in (*PROBES, "/static/page.css"):
        with client.get(path) as answer:
            assert answer.status_code == 200

"""The description of the API: valid, complete, and what the server does."""

import collections
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from rag.access import KeyFile
from rag.insights.store import Recorder
from rag.jobs.pushes import PushedQueue
from rag.settings import Settings
from tests.endpoint import fake_endpoint
from tests.web.fakes import FakeJobs, FakeRetriever, make_hit
from tests.web.running import running
from web.app import create_app
from web.openapi import PUBLIC, document
from web.problems import FRAMING_PROBLEMS

# Drawn for each operation; with the variable, every boundary is tried too, which are some two thousand cases more.
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = int(os.environ.get("API_EXAMPLES", "12"))
FREE = ("GET /", "GET /status", "POST /api/v1/search/batch")  # lenient on purpose; see tests of their own


def test_every_route_is_in_it(app, client):
    described = client.get("/openapi.json").get_json()
    known = {(path, method.upper()) for path, methods in described["paths"].items() for method in methods}
    there = {
        (re.sub("<(?:path:)?([^>]+)>", r"{\1}", rule.rule), method)
        for rule in app.url_map.iter_rules()
        if rule.endpoint not in PUBLIC
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert known == there


def test_every_error_is_in_the_documentation_and_no_other(app):
    described = document(app)
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    errors = {int(status) for each in operations for status in each["responses"] if status >= "400"}
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}(?:, \d{3})*) \|", page, re.MULTILINE)
    of_any_path = {405, *(status for status, _ in FRAMING_PROBLEMS.values())}
    assert {int(status) for row in rows for status in row.split(", ")} == errors | of_any_path


def enums(node: Any) -> Iterator[list[Any]]:
    """Yield every enum of a schema."""
    if isinstance(node, dict) and isinstance(node.get("enum"), list):
        yield node["enum"]
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from enums(each)


def test_it_is_valid_and_generators_of_clients_can_name_everything(app):
    described = document(app)
    OpenAPIV31SpecValidator(described).validate()
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) <= 38
    assert len(described["paths"]) <= 28
    assert all(each["summary"] for each in operations)
    found = list(enums(described))
    assert len(found) > 5
    assert all(len({str(each).lower() for each in enum}) == len(enum) for enum in found)
    assert described["servers"] == [{"url": "/"}]


@pytest.fixture
def served(tmp_path):
    """Address of a server with everything switched on, and a key that may write."""
    keys = KeyFile(tmp_path / "keys.json")
    retriever = FakeRetriever()
    retriever.hits = [make_hit(rank) for rank in range(1, 25)]
    retriever.rerank_model = "dummy"
    with fake_endpoint() as endpoint:
        endpoint.answers("Over a subset [1].")
        settings = Settings(
            index=str(tmp_path / "index"),
            keys=str(keys.path),
            anonymous="read",
            answer_url=endpoint.url,
            answer_model="small",
        )
        recorder = Recorder(settings.insights_folder, settings.insights)
        recorder.start()
        app = create_app(retriever, settings, FakeJobs(), PushedQueue(settings), recorder)
        with running(app) as url:
            yield url, keys.add("tester", "write")
        recorder.close()


def settings_of(key: str) -> dict[str, Any]:
    lenient = {"negative_data_rejection": {"enabled": False}}
    operations = [{"include-name": name, "checks": lenient} for name in FREE]
    # a build that was cancelled can still be looked at
    operations.append({"include-name": "GET /api/v1/index/{id}", "checks": {"use_after_free": {"enabled": False}}})
    return {
        "headers": {"Authorization": f"Bearer {key}"},
        "continue-on-failure": True,
        "suppress-health-check": ["too_slow"],  # which a busy machine is
        "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
        "checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}},
        "phases": {"coverage": {"enabled": "API_EXAMPLES" in os.environ}},
        "operations": operations,
    }


def in_order(fields: Any, first: str, last: str) -> None:
    """Put two days in order, which a schema cannot ask for."""
    if isinstance(fields, dict) and isinstance(fields.get(first), str) and isinstance(fields.get(last), str):
        fields[first], fields[last] = sorted((fields[first], fields[last]))


@pytest.fixture
def adapted():
    """Have cases keep to what a schema cannot say."""
    import schemathesis

    schemathesis.hook("before_call")(adapt)
    yield
    schemathesis.hooks.unregister(adapt)


def adapt(context: Any, case: Any, *_: Any) -> None:
    in_order(case.query, "from", "to")
    if isinstance(case.query, dict) and isinstance(case.query.get("q"), str):
        case.query["q"] = case.query["q"][:500]  # an address has an end
    body = case.body if isinstance(case.body, dict) else {}
    queries = body["queries"] if isinstance(body.get("queries"), list) else []
    for search in (body, *(query for query in queries if isinstance(query, dict))):
        if isinstance(search.get("filter"), dict):
            in_order(search["filter"].get("date"), "from", "to")
    if type(body.get("dimensions")) in (int, float):
        body["dimensions"] = 8


@pytest.mark.usefixtures("adapted")
def test_the_server_keeps_to_it(served, caplog):
    """All checks of Schemathesis; `API_EXAMPLES=20` for thousands of cases."""
    import schemathesis  # here, or every test process would import it
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import from_schema
    from schemathesis.engine.events import FatalError, NonFatalError, ScenarioFinished

    caplog.set_level(logging.CRITICAL, "pilotlight")
    url, key = served
    schema = schemathesis.openapi.from_url(
        f"{url}/openapi.json",
        config=SchemathesisConfig.from_dict(settings_of(key)),
        headers={"Authorization": f"Bearer {key}"},
    )
    cases, statuses, failures = 0, collections.Counter[int](), []
    for event in from_schema(schema).execute():
        if isinstance(event, NonFatalError | FatalError):
            failures.append(str(event))
        if not isinstance(event, ScenarioFinished):
            continue
        cases += len(event.recorder.cases)
        for number, checks in event.recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    failure, interaction = check.failure_info, event.recorder.interactions[number]
                    answer = interaction.response.text[:300] if interaction.response else ""
                    failures.append(f"{check.name}: {failure.failure.message}\n{failure.code_sample[:1500]}\n{answer}")
        statuses.update(each.response.status_code for each in event.recorder.interactions.values() if each.response)
    print(f"{cases} cases, answered {dict(statuses)}")
    assert not failures, "\n\n".join(failures)
    assert cases >= 200
    assert not any(status >= 500 for status in statuses)

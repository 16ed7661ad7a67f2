"""The manifest in scripts/deploy against the program: addresses, metrics, variables and names that it uses exist."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from rag.settings import SETTINGS, Settings, load
from tests.command_lines import read
from tests.web.fakes import FakeRetriever
from web.app import create_app
from web.observe.metrics import Metrics
from web.server.__main__ import GRACE_S

DEPLOY = Path(__file__).resolve().parents[1] / "scripts" / "deploy"
DOCS = DEPLOY.parents[1] / "docs"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    """What is deployed, by its kind."""
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    [found] = pod["containers"]
    assert isinstance(found, dict)
    return found


def test_probes_are_routes(container):
    routes = {rule.rule for rule in create_app(FakeRetriever(), Settings()).url_map.iter_rules()}
    paths = {probe: container[probe]["httpGet"]["path"] for probe in PROBES}
    assert set(paths.values()) <= routes
    assert paths["readinessProbe"] == "/readyz"
    assert paths["livenessProbe"] == "/livez"


def test_variables_are_settings_and_the_command_is_understood(container):
    given = {each["name"]: each["value"] for each in container["env"]}
    ours = {name: value for name, value in given.items() if name.startswith("PILOTLIGHT_")}
    assert ours.keys() <= {setting.variable for setting in SETTINGS}
    assert given.keys() - ours.keys() == {"AWS_REGION"}
    read(container["args"])
    settings = load({}, ours)
    assert settings.index_dir.is_relative_to("/replica")
    assert settings.workers == int(container["resources"]["limits"]["cpu"])
    [port] = container["ports"]
    assert settings.port == port["containerPort"]


def test_what_is_written_to_is_mounted_and_nothing_else_can_be(pod, container):
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in pod["volumes"]}
    assert mounts.keys() == {"/replica", "/tmp", "/keys"}
    assert mounts["/keys"]["readOnly"]
    security = container["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"]["drop"] == ["ALL"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"USER {pod['securityContext']['runAsUser']}" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_requests_under_way_have_time_to_end(pod, container):
    [_, pause] = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] >= int(pause) + GRACE_S


def test_it_scales_by_a_metric_that_there_is(objects):
    spec = objects["HorizontalPodAutoscaler"]["spec"]
    names = {metric["pods"]["metric"]["name"] for metric in spec["metrics"] if metric["type"] == "Pods"}
    exposed = text_string_to_metric_families(Metrics(lambda: {"ready": True}).text().decode())
    assert names <= {family.name for family in exposed}
    page = (DOCS / "replicas.md").read_text(encoding="utf-8")
    assert all(f"seriesQuery: '{name}" in page for name in names)  # the rule that prometheus-adapter needs
    assert "replicas" not in objects["Deployment"]["spec"]
    assert objects["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_names_and_labels_go_together(objects, container):
    deployment = objects["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} <= names
    [rule] = objects["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} <= names

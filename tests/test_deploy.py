"""What is in scripts/deploy against the program: files, settings and commands that it names exist."""

import re
import shlex
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rag.settings import SETTINGS, load
from tests.command_lines import read
from tests.web.test_server import Running

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "scripts" / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
BY_VARIABLE = {setting.variable: setting.name for setting in SETTINGS}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.partition(" ") for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, _, rest in lines]


def compose() -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def of_unit(path: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def commands() -> Iterator[tuple[str, list[str]]]:
    for unit in DEPLOY.glob("*.service"):
        for line in of_unit(unit, "ExecStart"):
            program, *arguments = shlex.split(line)
            assert Path(program).name == "pilotlight"
            yield unit.name, arguments
    for name, service in compose()["services"].items():
        yield f"compose {name}", service["command"]
    for line in re.findall(r"run --rm index (.*)$", (DEPLOY / "compose.yaml").read_text("utf-8"), re.MULTILINE):
        yield "compose comment", shlex.split(line)
    for name, value in instructions():
        if name == "RUN" and value.startswith("pilotlight "):
            yield "Dockerfile", shlex.split(value)[1:]


def variables() -> Iterator[tuple[str, str, str]]:
    for unit in DEPLOY.glob("*.service"):
        for line in of_unit(unit, "Environment"):
            name, _, value = line.partition("=")
            yield unit.name, name, value
    for name, value in instructions():
        if name == "ENV":
            for pair in shlex.split(value):
                variable, _, given = pair.partition("=")
                yield "Dockerfile", variable, given


@pytest.mark.parametrize(("where", "arguments"), list(commands()), ids=lambda value: str(value)[:60])
def test_commands_are_understood(where, arguments):
    parsed = read(arguments)
    load({name: parsed[name] for name in BY_VARIABLE.values() if parsed.get(name) is not None}, {})


def test_variables_are_settings():
    ours = [given for given in variables() if given[1].startswith("PILOTLIGHT_")]
    assert len(ours) >= 8
    for where, variable, value in ours:
        assert variable in BY_VARIABLE, where
        load({}, {variable: value})


def test_what_is_copied_is_there_and_is_all_that_is_packaged():
    copied = [word for name, value in instructions() if name == "COPY" for word in value.split()[:-1]]
    ours = {word for word in copied if not word.startswith(("--", "/"))}
    assert all((ROOT / name).exists() for name in ours)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert {name for name in ours if (ROOT / name).is_dir()} == packaged
    kept = set(re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8"), re.MULTILINE))
    assert kept == ours
    extras = next(re.findall(r"\.\[([\w,]+)\]", value)[0] for _, value in instructions() if ".[" in value)
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_the_list_for_serving_is_that_of_the_project_without_torch():
    """Every dependency but those that scripts/lock leaves out, in a version that fits, with the hashes of its files."""
    text = (DEPLOY / "pilotlight-serve.txt").read_text(encoding="utf-8")
    entries = [entry.split("--hash=") for entry in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).split("\n") if entry]
    pins, hashes = [], 0
    for line in entries:
        if len(line) == 1:
            pins.append(Requirement(line[0].rstrip("\\ ")))
        else:
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", line[1].rstrip("\\ "))
            hashes += 1
    assert hashes > len(pins)
    pinned = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    left_out = set(re.search(r"left_out=\((.*)\)", (ROOT / "scripts" / "lock").read_text("utf-8"))[1].split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = list(map(Requirement, project["dependencies"] + project["optional-dependencies"]["remote"]))
    assert left_out <= {one.name for one in needed} | {"huggingface-hub"}
    assert not left_out & pinned.keys()
    wrong = [
        one.name
        for one in needed
        if one.name not in left_out and not one.specifier.contains(pinned[canonicalize_name(one.name)])
    ]
    assert wrong == []


def test_compose_holds_its_services_down():
    for name, service in compose()["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(compose()["volumes"])
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKERFILE
        arguments = {value.partition("=")[0] for name, value in instructions() if name == "ARG"}
        assert set(service["build"]["args"]) <= arguments
    [published] = compose()["services"]["serve"]["ports"]
    assert published.startswith("127.0.0.1:")  # whatever is beyond this machine goes through a proxy with a certificate


def test_units_are_what_systemd_takes(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        (tmp_path / unit.name).write_text(re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", text, flags=re.MULTILINE))
    line = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_server_tells_systemd_that_it_is_ready_and_not_before(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        server = Running(tmp_path)
        told.setblocking(False)
        with pytest.raises(BlockingIOError):
            told.recv(4096)
        told.settimeout(60)
        server.make_ready()
        assert b"READY=1" in told.recv(4096)
        assert server.stop() == (0, "")


# The page on production


SKIP_OPTIONS = 'while case "$1" in -*) true;; *) false;; esac; do shift; done; exec "$@"'
STUBS = {  # programs that change the machine; each notes how it was called
    **dict.fromkeys(("apt-get", "systemctl", "systemd-sysusers", "nginx", "curl", "pip", "pilotlight"), ""),
    **dict.fromkeys(("sudo", "systemd-run"), SKIP_OPTIONS),
    "hostname": "echo wiki.test",
}


def test_the_page_on_production_runs_from_top_to_bottom(tmp_path):
    """Install, configure and start, with stubs for what needs root, systemd or the network, and folders of the test."""
    page = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for folder in ("etc/sysusers.d", "etc/systemd/system", "etc/nginx", "opt", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    script = re.sub(r"(?<![\w/])/(etc|opt)/", rf"{tmp_path}/\1/", script).replace("-o pilotlight ", "")
    calls = tmp_path / "calls"
    for name, body in STUBS.items():
        stub = tmp_path / "bin" / name
        stub.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" >> {calls}; printf "\\n" >> {calls}\n{body}\n')
        stub.chmod(0o755)
    script = script.replace(f"sudo python3 -m venv {tmp_path}/opt/pilotlight", f"ln -s .. {tmp_path}/opt/pilotlight")
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    called = [line.split("\0")[:-1] for line in calls.read_text(encoding="utf-8").splitlines()]
    verbs = [arguments for program, *arguments in called if program == "pilotlight"]
    assert [arguments[0] for arguments in verbs] == ["index", "keys", "verify", "export", "doctor"]
    for arguments in verbs:
        read(arguments)
    units = {path.name for path in (tmp_path / "etc/systemd/system").iterdir()}
    assert units == {path.name for path in UNITS}
    enabled = [arguments[2:] for program, *arguments in called if program == "systemctl" and arguments[0] == "enable"]
    assert set(enabled[0]) <= units
    assert load({}, dict([(tmp_path / "etc/pilotlight.env").read_text().strip().split("=")])).proxies == 1
    assert "server_name wiki.test;" in (tmp_path / "etc/nginx/nginx.conf").read_text(encoding="utf-8")
    requirements = next(arguments for program, *arguments in called if program == "pip")[-1]
    assert (ROOT / requirements).is_file()

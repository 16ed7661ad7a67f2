from pathlib import Path

import pytest
from flask.testing import FlaskClient

from rag import removed
from rag.commands.cli import VERBS, main
from rag.errors import SettingsError
from rag.settings import BY_NAME, Settings, load
from rag.settings_file import read_settings_file
from tests.web.fakes import FakeRetriever
from web.app import create_app


def test_what_was_removed_is_not_there_any_more() -> None:
    assert not removed.SETTINGS.keys() & BY_NAME.keys()
    assert not removed.COMMANDS.keys() & VERBS.keys()
    routes = {rule.rule for rule in create_app(FakeRetriever(), Settings()).url_map.iter_rules()}
    assert not removed.ROUTES.keys() & routes


@pytest.mark.parametrize("name", removed.SETTINGS)
def test_a_removed_setting_is_refused_with_what_takes_its_place(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"was removed: {removed.SETTINGS[name]}"
    with pytest.raises(SettingsError) as error:
        load({}, {f"PILOTLIGHT_{name.upper()}": "x"})
    assert str(error.value) == f"PILOTLIGHT_{name.upper()} {said}"
    file = tmp_path / "pilotlight.toml"
    file.write_text(f"[settings]\n{name} = 'x'\n")
    with pytest.raises(SettingsError) as error:
        read_settings_file(file)
    assert str(error.value) == f"{file}: settings: {name} {said}"
    flag = f"--{name.replace('_', '-')}"
    assert main(["serve", flag, "x"]) == 2
    assert capsys.readouterr().err == f"pilotlight: {flag} {said}\n"


@pytest.mark.parametrize("name", removed.COMMANDS)
def test_a_removed_command_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert capsys.readouterr().err == f"pilotlight: the command {name} was removed: {removed.COMMANDS[name]}\n"


@pytest.mark.parametrize("path", removed.ROUTES)
def test_a_removed_route_is_gone(path: str) -> None:
    client: FlaskClient = create_app(FakeRetriever(), Settings()).test_client()
    answer = client.post(path, json={})
    assert answer.status_code == 410
    assert answer.get_json()["detail"] == f"{path} was removed: {removed.ROUTES[path]}"


@pytest.mark.parametrize("address", ["s3://bucket/docs", "https://user:secret@h/x"])
def test_an_index_at_an_address_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "x", "--index", address]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"pilotlight: --index {address.partition(':')[0]}://…: indexes at an address were removed: ")
    assert told.count("\n") == 1
    assert "secret" not in told


@pytest.mark.parametrize("name", removed.FLAGS)
def test_a_removed_flag_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", f"--{name}", "x"]) == 2
    assert capsys.readouterr().err == f"pilotlight: --{name} was removed: {removed.FLAGS[name]}\n"


@pytest.mark.parametrize("name", removed.SOURCE_KEYS)
def test_a_removed_key_of_a_source_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pilotlight.toml"
    file.write_text(f"[[source]]\npath = 'x'\n{name} = '6h'\n")
    with pytest.raises(SettingsError) as error:
        read_settings_file(file)
    assert str(error.value) == f"{file}: source 1: {name} was removed: {removed.SOURCE_KEYS[name]}"

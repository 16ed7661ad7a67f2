import dataclasses

import pytest

from embedder.errors import PilotlightError
from indexer.config import Scope
from indexer.errors import ConfigError
from rag.errors import SettingsError
from rag.settings import SETTINGS, Settings, load
from tests.command_lines import read


def test_a_default_has_the_type_of_its_field():
    fields = {field.name: field.type for field in dataclasses.fields(Settings)}
    assert fields == {setting.name: type(setting.default) for setting in SETTINGS}


def test_a_secret_is_not_shown():
    assert "sk-1" not in repr(Settings(answer_key="sk-1"))


def test_flags_win_over_the_environment_over_the_defaults():
    environ = {"PILOTLIGHT_PORT": "9000", "PILOTLIGHT_MAX_PAGES": "7"}
    settings = load({"port": "9001"}, environ)
    assert (settings.port, settings.max_pages, settings.workers) == (9001, 7, 0)


def test_every_default_is_allowed_and_survives_another_process():
    settings = load({}, {})
    assert load({}, settings.as_environment()) == settings


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("port", "x", "--port must be a whole number, not 'x'"),
        ("port", "70000", "--port must be from 1 to 65,535"),
        ("port", "1.5", "whole number"),
        ("timeout", "nan", "--timeout must be from"),
        ("max_pages", "-1", "--max-pages must be from 1"),
        ("engine", "warp", "--engine must be one of auto, native, aot, compile, eager"),
        ("chunk_tokens", "-1", "--chunk-tokens must be from 16"),
    ],
)
def test_a_bad_value_is_told_with_what_is_allowed(name, value, told):
    with pytest.raises(SettingsError, match=told):
        load({name: value}, {})


def test_a_bad_variable_is_named():
    with pytest.raises(SettingsError, match="PILOTLIGHT_WORKERS must be a whole number"):
        load({}, {"PILOTLIGHT_WORKERS": "many"})


def test_configs_take_their_values_from_the_settings(tmp_path):
    values = {"threads": 3, "cache_dir": str(tmp_path), "max_pages": 5, "chunk_tokens": 64, "keep_generations": 9}
    settings = load(values, {})
    embedder, build = settings.embedder_config(), settings.build_config()
    assert (embedder.threads, embedder.cache_dir) == (3, tmp_path)
    assert (build.crawl.max_pages, build.chunk.tokens, build.keep_generations) == (5, 64, 9)


def test_a_collection_is_a_folder_of_the_index(tmp_path):
    settings = load({"index": str(tmp_path)}, {})
    assert settings.collection_dir == settings.index_dir == tmp_path
    named = load({"index": str(tmp_path)}, {"PILOTLIGHT_COLLECTION": "manuals"})
    assert named.collection_dir == tmp_path / "collections" / "manuals"
    with pytest.raises(ConfigError, match=r"a collection cannot be called '\.\./x'"):
        _ = load({"index": str(tmp_path), "collection": "../x"}, {}).collection_dir


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], False),
        (["--allow-private"], True),
        (["--allow-private=no"], False),
        (["--allow-private", "On"], True),
        (["--allow-private", "10.0.0.0/8, fd00::/8"], ("10.0.0.0/8", "fd00::/8")),
    ],
)
def test_private_networks_are_all_none_or_those_named(given: list[str], meant: object) -> None:
    value = read(["index", *given])["allow_private"]
    settings = load({} if value is None else {"allow_private": value}, {})
    assert settings.build_config().crawl.allow_private == meant


@pytest.mark.parametrize("value", ["http://127.0.0.1/", "perhaps", "10.0.0.1/8"])
def test_what_is_no_network_is_refused(value: str) -> None:
    with pytest.raises(PilotlightError, match="allow_private is yes, no or networks such as"):
        load({"allow_private": value}, {}).build_config()


def test_patterns_become_a_scope() -> None:
    settings = load({"include": "/docs/, /blog/*.html$", "exclude": "*/old/"}, {})
    assert settings.build_config().crawl.scope == Scope(("/docs/", "/blog/*.html$"), ("*/old/",))

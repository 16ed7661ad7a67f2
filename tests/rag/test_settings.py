"""Settings: where a value comes from, what is allowed, and what is refused with what takes its place."""

import dataclasses
from pathlib import Path

import pytest

from embedder.errors import PilotlightError
from indexer.config import CrawlScope
from indexer.errors import ConfigError
from indexer.network.credentials import Basic, Credential, InEnvironment, InFile
from rag.commands.cli import main
from rag.errors import SettingsError
from rag.settings import SETTINGS, Settings, load
from rag.settings_file import ConfiguredSource, SettingsFile, read_settings_file
from tests.command_lines import read
from tests.linear import check_linear

EVERYTHING = """
[settings]
chunk_tokens = 150
delay = 0.5
index = "/srv/index"

[[source]]
url = "https://docs.example.org/"
include = ["/guide/", "*.html$"]
exclude = "*/old/,*/draft/"
max_pages = 3
allow_private = true

[[source]]
path = "notes"
max_bytes = 5_000
metadata = { team = "core", audience = ["operators", "developers"] }

[[credentials]]
origin = "https://Wiki.Example.org:443/"
basic = { user = "reader", password = { env = "WIKI_PASSWORD" } }
headers = { X-Key = { file = "key" } }
cookies = { file = "/etc/cookies.txt" }

[[credentials]]
origin = "http://localhost:8000"
bearer = { env = "TOKEN" }
"""
SITE = '[[credentials]]\norigin="https://a.test"\n'


def configured(folder: Path, text: str) -> SettingsFile:
    path = folder / "pilotlight.toml"
    path.write_text(text)
    return read_settings_file(path)


def test_a_default_has_the_type_of_its_field_and_survives_another_process() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(Settings)}
    assert fields == {setting.name: type(setting.default) for setting in SETTINGS}
    assert load({}, load({}, {}).as_environment()) == load({}, {})
    assert "sk-1" not in repr(Settings(answer_key="sk-1"))


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = configured(tmp_path, EVERYTHING)
    settings = load({"chunk_tokens": "99"}, {"PILOTLIGHT_DELAY": "2", "PILOTLIGHT_CHUNK_TOKENS": "7"}, file.settings)
    assert (settings.chunk_tokens, settings.delay, settings.index, settings.port) == (99, 2.0, "/srv/index", 8642)
    assert settings.rules == str(tmp_path / "pilotlight.toml"), "jobs of a server find the credentials by it"


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("port", "x", "--port must be a whole number, not 'x'"),
        ("port", "70000", "--port must be from 1 to 65,535"),
        ("timeout", "nan", "--timeout must be from"),
        ("engine", "warp", "--engine must be one of auto, native, aot, compile, eager"),
        ("allow_private", "10.0.0.1/8", "allow_private must be yes, no or networks such as"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(name: str, value: str, error: str) -> None:
    with pytest.raises(PilotlightError, match=error):
        load({name: value}, {}).build_config()
    if error.startswith("--"):
        variable = f"PILOTLIGHT_{name.upper()}"
        with pytest.raises(SettingsError, match=error.replace(f"--{name}", variable)):
            load({}, {variable: value})


def test_configs_take_their_values_from_the_settings(tmp_path: Path) -> None:
    values = {"threads": 3, "cache_dir": str(tmp_path), "max_pages": 5, "chunk_tokens": 64, "keep_generations": 9}
    settings = load({**values, "include": "/docs/, /blog/*.html$", "exclude": "*/old/"}, {})
    embedder, build = settings.embedder_config(), settings.build_config()
    assert (embedder.threads, embedder.cache_dir) == (3, tmp_path)
    assert (build.crawl.max_pages, build.chunk_tokens, build.keep_generations) == (5, 64, 9)
    assert build.crawl.scope == CrawlScope(("/docs/", "/blog/*.html$"), ("*/old/",))
    assert load({"index": "i", "collection": "manuals"}, {}).collection_dir == Path("i/collections/manuals")
    with pytest.raises(ConfigError, match=r"the collection name '\.\./x'"):
        _ = load({"collection": "../x"}, {}).collection_dir


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], False),
        (["--allow-private"], True),
        (["--allow-private=no"], False),
        (["--allow-private", "10.0.0.0/8, fd00::/8"], ("10.0.0.0/8", "fd00::/8")),
    ],
)
def test_private_networks_are_all_none_or_those_named(given: list[str], meant: object) -> None:
    value = read(["index", *given])["allow_private"]
    settings = load({} if value is None else {"allow_private": value}, {})
    assert settings.build_config().crawl.allow_private == meant


def test_sources_and_credentials_of_a_file(tmp_path: Path) -> None:
    file = configured(tmp_path, EVERYTHING)
    scope = {"include": ("/guide/", "*.html$"), "exclude": ("*/old/", "*/draft/")}
    metadata = {"team": ("core",), "audience": ("operators", "developers")}
    assert file.sources == (
        ConfiguredSource("https://docs.example.org/", limits={"max_pages": 3, "allow_private": True, **scope}),
        ConfiguredSource(str(tmp_path / "notes"), metadata=metadata, limits={"max_bytes": 5_000}),
    )
    assert file.credentials == (
        Credential(
            "https://wiki.example.org",
            basic=Basic("reader", InEnvironment("WIKI_PASSWORD")),
            headers={"X-Key": InFile(tmp_path / "key")},
            cookies=InFile(Path("/etc/cookies.txt")),
        ),
        Credential("http://localhost:8000", bearer=InEnvironment("TOKEN")),
    )
    assert configured(tmp_path, "") == SettingsFile()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = ", "not valid TOML"),
        ("x = " + "[" * 5_000, "not valid TOML: it is nested too deeply"),
        (".".join("a" * 100_000) + " = 1", "not valid TOML: a key has more than 32 parts"),
        ("#" * 1_000_001, "not valid TOML: it has more than 1,000,000 characters"),
        ("color = 1", "unknown name 'color'; use one of: settings, source"),
        ('model = "x"', "move model into the table .settings."),
        ("[[source]]", "source 1 must have either url or path"),
        ("[[source]]\nurl='notes'", "url must be an http, https, git\\+https, git\\+file, s3, gs or az address"),
        ("[[source]]\nurl='https://me:h1dden@a.test/'", "has a user name or password in its address"),
        ("[[source]]\npath='git+file:///x'", "path must be a folder or file"),
        ("[[source]]\npath='x'\nmetadata={a=1}", "metadata must be a table"),
        ("[[source]]\npath='x'\npages=1", "unknown name 'pages', did you mean max_pages?"),
        ("[[source]]\npath='x'\nmax_pages=1", "max_pages limits a crawl: it needs a url"),
        ("[[source]]\nurl='git+file:///x'\nmax_pages=1", "max_pages does not apply to a repository"),
        ("[[source]]\nurl='git+file:///x'\nlink_template='https://b.test/'", "link_template must contain {path}"),
        ("[[source]]\nurl='http://a.test/'\ninclude='docs'", "source 1: include and exclude must be patterns"),
        ("[[source]]\npath='x'\n[[source]]\npath='./x'", "listed twice"),
        ("[[credentials]]\norigin='https://me:h1dden@a.test'", "origin must be scheme, host and optionally a port"),
        ("[[credentials]]\norigin='http://10.0.0.1'", "only over https, or to this machine"),
        (SITE + "bearer='h1dden'", r"bearer must not contain the secret itself, .*: write \{env = "),
        (SITE + "bearer={env='h1dden value'}", "bearer.env must be the name of a variable"),
        (SITE + "basic={user='u', password='h1dden'}", "basic.password must not contain"),
        (SITE + "basic={user='u:v', password={env='A'}}", "without a colon"),
        (SITE + "bearer={env='A'}\nheaders={authorization={env='A'}}", "would both set the header Authorization"),
        (SITE + "cookies='h1dden'", "cookies must not contain the secret itself"),
        (SITE + "headers={X-Key='h1dden'}", "headers.X-Key must not contain"),
        (SITE + "headers={Cookie={env='A'}}", "that only the crawler may set"),
        (SITE + 'headers={"X:"={env="A"}}', "an invalid name"),
        (SITE + "login={url='/l'}", "unknown name 'login'"),
        (SITE + "[[credentials]]\norigin='https://A.test:443/'", "listed twice"),
        (SITE + "[settings]\nrules='x'", "not both"),
    ],
)
def test_what_a_file_cannot_say(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error) as caught:
        configured(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "h1dden" not in str(caught.value)


def test_a_file_is_read_in_linear_time(tmp_path: Path) -> None:
    check_linear(
        lambda text: configured(tmp_path, text),
        lambda count: "".join(f"[[source]]\npath = 'x{number}'\n" for number in range(count)),
        2_000,
    )


def test_a_file_that_is_not_there_or_has_a_value_that_no_setting_can_have(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        read_settings_file(tmp_path / "none.toml")
    file = configured(tmp_path, "[settings]\nchunk_tokens = 'many'")
    with pytest.raises(SettingsError, match="chunk_tokens in the configuration file must be a whole number"):
        load({}, {}, file.settings)


def test_an_index_is_a_folder_and_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "x", "--index", "https://user:secret@h/x"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("pilotlight: --index https://…: the index must be a folder")
    assert (line.count("\n"), "secret" in line) == (1, False)

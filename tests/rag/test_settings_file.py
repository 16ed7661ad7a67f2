from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.settings import load
from rag.settings_file import ConfiguredSource, read_settings_file


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pilotlight.toml"
    path.write_text(text)
    return path


def test_everything(tmp_path: Path) -> None:
    read = read_settings_file(
        write(
            tmp_path,
            """
            [settings]
            chunk_tokens = 150
            delay = 0.5
            index = "/srv/index"

            [[source]]
            url = "https://docs.example.org/"
            include = ["/guide/", "*.html$"]
            exclude = "*/old/,*/draft/"
            max_pages = 3
            delay = 0.5
            allow_private = true

            [[source]]
            path = "notes"
            max_bytes = 5_000
            collection = "team"
            metadata = { team = "core", audience = ["operators", "developers"] }
            """,
        )
    )
    assert read.sources == (
        ConfiguredSource(
            "https://docs.example.org/",
            own={
                "max_pages": 3,
                "include": ("/guide/", "*.html$"),
                "exclude": ("*/old/", "*/draft/"),
                "delay": 0.5,
                "allow_private": True,
            },
        ),
        ConfiguredSource(
            str(tmp_path / "notes"),
            collection="team",
            metadata={"team": ("core",), "audience": ("operators", "developers")},
            own={"max_bytes": 5_000},
        ),
    )
    settings = load({"chunk_tokens": "99"}, {"PILOTLIGHT_DELAY": "2"}, read.settings)
    assert (settings.chunk_tokens, settings.delay, settings.index) == (99, 2.0, "/srv/index")


def test_an_empty_file(tmp_path: Path) -> None:
    read = read_settings_file(write(tmp_path, ""))
    assert (read.settings, read.sources) == ({}, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = ", "not valid TOML"),
        ("color = 1", "unknown name 'color'; use one of: settings, source"),
        ('model = "x"', "move model into the table .settings."),
        ("[settings]\ncolor = 1", "settings: unknown name 'color'"),
        ("settings = 1", r"write \[settings\]"),
        ("source = 1", r"write \[\[source\]\]"),
        ("[[source]]", "source 1 must have either url or path"),
        ("[[source]]\nurl='http://a.test/'\npath='x'", "either url or path"),
        ("[[source]]\nurl='notes'", "url must be an http, https, git\\+https, git\\+file, s3, gs or az address"),
        ("[[source]]\npath='http://a.test/'", "path must be a folder or file"),
        ("[[source]]\npath=''", "path must be a text"),
        (
            "[[source]]\npath='x'\n[[source]]\npath='y'\nevery='6h'",
            "source 2: every was removed: a systemd",
        ),
        ("[[source]]\npath='x'\nwatch=true", "source 1: watch was removed: index --watch follows"),
        ("[[source]]\npath='x'\nmetadata=1", "metadata must be a table"),
        ("[[source]]\npath='x'\nmetadata={a=1}", "metadata must be a table"),
        ("[[source]]\npath='x'\nmetadata={a=''}", "metadata has 1 names or values"),
        ("[[source]]\npath='x'\npages=1", "unknown name 'pages', did you mean max_pages?"),
        ("[[source]]\npath='x'\nmax_pages=1", "max_pages limits a crawl: it needs a url"),
        ("[[source]]\nurl='git+file:///x'\nmax_pages=1", "max_pages is not for a repository"),
        ("[[source]]\nurl='https://a.test'\nlink_template='https://b.test/{path}'", "link_template is not for a site"),
        ("[[source]]\nurl='git+file:///x'\nlink_template='https://b.test/'", "link_template needs {path}"),
        ("[[source]]\nurl='s3://x'\ndelay=1", "delay is not for a bucket"),
        ("[[source]]\npath='git+file:///x'", "path must be a folder or file"),
        ("[[source]]\nurl='http://a.test/'\nmax_pages='deep'", "source 1: max_pages must be a whole number"),
        ("[[source]]\nurl='http://a.test/'\ninclude='docs'", "source 1: include and exclude are patterns"),
        ("[[source]]\nurl='http://a.test/'\nallow_private='10.0.0.1/8'", "source 1: allow_private is yes, no or"),
        ("[[source]]\npath='x'\n[[source]]\npath='./x'", "given twice"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        read_settings_file(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_value_that_no_setting_can_have(tmp_path: Path) -> None:
    read = read_settings_file(write(tmp_path, "[settings]\nchunk_tokens = 'many'"))
    with pytest.raises(SettingsError, match="chunk_tokens in the configuration file must be a whole number"):
        load({}, {}, read.settings)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        read_settings_file(tmp_path / "none.toml")

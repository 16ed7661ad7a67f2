import os
from pathlib import Path

import pytest

from indexer.credentials import InEnvironment, InFile, site_of
from indexer.errors import ConfigError, CredentialsError, SourceError
from tests.indexer.pipeline.incremental import Work

TEXT = "s3cret-value"


def test_line_ends_are_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(f" {TEXT} \r\n")
    assert InFile(tmp_path / "secret").read() == f" {TEXT} "
    monkeypatch.setenv("A_SECRET", f"{TEXT}\n")
    assert InEnvironment("A_SECRET").read() == TEXT


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text(TEXT)
    path.chmod(mode)
    with pytest.raises(CredentialsError, match=rf"may be read by others \(mode {mode:o}\): chmod 600 it") as caught:
        InFile(path).read()
    assert TEXT not in str(caught.value)


def test_other_files_and_variables_that_are_of_no_use(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    for path, data in ((empty, b"\n"), (binary, b"\xff\xfe")):
        path.touch(mode=0o600)
        path.write_bytes(data)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, told in (
        (empty, "is empty"),
        (binary, "is not text in UTF-8"),
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "pipe", "is not a file"),
    ):
        with pytest.raises(CredentialsError, match=told):
            InFile(path).read()
    with pytest.raises(CredentialsError, match="variable DOOR_UNSET is not set"):
        InEnvironment("DOOR_UNSET").read()


@pytest.mark.parametrize("text", ["https://a.test", "https://A.test:443/", "https://a.test:8443", "http://[::1]:80"])
def test_origins_that_secrets_may_be_sent_to(text: str) -> None:
    assert site_of(text) in {"https://a.test", "https://a.test:8443", "http://[::1]"}


@pytest.mark.parametrize(
    "text", ["http://a.test", "http://localhost.a.test", "http://127.0.0.1.a.test", "ftp://a.test"]
)
def test_origins_that_they_may_not(text: str) -> None:
    with pytest.raises(ConfigError):
        site_of(text)


@pytest.mark.parametrize("source", ["https://me:s3cret@a.test/", "HTTP://s3cret@a.test"])
def test_a_source_with_a_password_is_refused_and_not_quoted(work: Work, source: str) -> None:
    with pytest.raises(SourceError, match=r"describe them under \[\[credentials\]\]") as caught:
        work.build(source)
    assert "s3cret" not in str(caught.value)
    assert not work.index.exists()

from pathlib import Path

import pytest

from indexer.credentials import Basic, Credential, InEnvironment, InFile
from rag.errors import SettingsError
from rag.settings_file import read_settings_file

SITE = 'origin="https://a.test"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "pilotlight.toml"
    path.write_text(text)
    return path


def test_everything(tmp_path: Path) -> None:
    text = """
    [[credentials]]
    origin = "https://Wiki.Example.org:443/"
    basic = { user = "reader", password = { env = "WIKI_PASSWORD" } }
    headers = { X-Key = { file = "key" } }
    cookies = { file = "/etc/cookies.txt" }

    [[credentials]]
    origin = "http://localhost:8000"
    bearer = { env = "TOKEN" }
    """
    path = write(tmp_path, text)
    read = read_settings_file(path)
    password = InEnvironment("WIKI_PASSWORD")
    assert read.credentials == (
        Credential(
            "https://wiki.example.org",
            basic=Basic("reader", password),
            headers={"X-Key": InFile(tmp_path / "key")},
            cookies=InFile(Path("/etc/cookies.txt")),
        ),
        Credential("http://localhost:8000", bearer=InEnvironment("TOKEN")),
    )
    assert read.settings == {"rules": str(path)}, "jobs of a server find them by it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "origin must be scheme, host and port"),
        ("origin='https://me:h1dden@a.test'", "origin must be scheme, host and port"),
        ("origin='https://a.test/wiki'", "origin must be scheme, host and port"),
        ("origin='http://a.test'", "only over https, or to this machine"),
        ("origin='http://10.0.0.1'", "only over https, or to this machine"),
        (SITE + "bearer='h1dden'", r"bearer must not hold the secret itself, .*: write \{env = "),
        (SITE + "bearer={env='h1dden value'}", "bearer.env must be the name of a variable"),
        (SITE + "bearer={env='A', file='b'}", "bearer must be"),
        (SITE + "bearer={}", "bearer must be"),
        (SITE + "bearer={env=1}", "bearer must be"),
        (SITE + "bearer={var='h1dden'}", "bearer: unknown name 'var'"),
        (SITE + "token={env='A'}", "unknown name 'token'; use one of: origin, bearer"),
        (SITE + "cookies='h1dden'", "cookies must not hold the secret itself"),
        (SITE + "basic={user='u', password='h1dden'}", "basic.password must not hold"),
        (SITE + "basic={user='u'}", "basic needs password"),
        (SITE + "basic={user='u:v', password={env='A'}}", "without a colon"),
        (SITE + "basic={user='u', password={env='A'}}\nbearer={env='A'}", "would both be the header Authorization"),
        (SITE + "bearer={env='A'}\nheaders={authorization={env='A'}}", "would both be the header Authorization"),
        (SITE + "headers={X-Key='h1dden'}", "headers.X-Key must not hold"),
        (SITE + "headers={Cookie={env='A'}}", "one that the crawler sets itself"),
        (SITE + 'headers={"X:"={env="A"}}', "a name that no header can have"),
        (SITE + "login={url='/l'}", "login was removed: log in with a browser, export its cookies"),
        (SITE + "client_certificate={file=1}", "client_certificate was removed: "),
        (SITE + "[[credentials]]\norigin='https://A.test:443/'", "given twice"),
        (SITE + "[settings]\nrules='x'", "not both"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        read_settings_file(write(tmp_path, f"[[credentials]]\n{text}"))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "h1dden" not in str(caught.value)


def test_a_password_in_the_address_of_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has a user name or password in its address") as caught:
        read_settings_file(write(tmp_path, "[[source]]\nurl='https://me:h1dden@a.test/'"))
    assert "h1dden" not in str(caught.value)

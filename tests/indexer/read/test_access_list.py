import json
from typing import Any

import pytest

from indexer.read.access_list import NOBODY, checked_names, read_list, readers_of
from indexer.read.extraction import from_json, to_json
from indexer.read.formats import content_type_of
from indexer.read.markup.markdown import read
from tests.indexer.conftest import make_page, parsed


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"users": ["bob", "ann"], "groups": "staff"}, ("group:staff", "user:ann", "user:bob")),
        ({"groups": []}, ()),
        ({}, ()),
        ({"everybody": True}, None),
        ({"everybody": "true"}, None),
        ({"users": ["  Zoë\u200b  de  X "]}, ("user:Zoë de X",)),
        ({"users": ["x" * 256]}, (f"user:{'x' * 256}",)),
        ({"users": [f"{number:03}" for number in range(256)]}, tuple(f"user:{number:03}" for number in range(256))),
    ],
)
def test_names(given: dict[str, Any], names: tuple[str, ...] | None) -> None:
    assert readers_of(given) == names


@pytest.mark.parametrize(
    "given",
    [
        "public", {"user": "ann"}, {"users": 7}, {"users": [""]}, {"users": ["x" * 257]},
        {"users": [str(number) for number in range(257)]}, {"everybody": True, "users": ["ann"]}, {"everybody": False},
    ],
)  # fmt: skip
def test_what_is_no_list(given: object) -> None:
    with pytest.raises(ValueError, match="access list") as caught:
        readers_of(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", [b"users = ", b"\xff", b"users = 7", b"a = " + b"[" * 100_000, b"[[users]]"])
def test_a_file_that_is_no_list(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever it is
        read_list(body)


CLOSED = {
    "a slip in the list": "---\naccess: public\n---\nText",
    "an unknown name in the list": "---\naccess: {user: ann}\n---\nText",
    "another case": "---\nACCESS: {users: [ann]}\n---\nText",
    "a sign nobody sees in the key": "---\nacc\u200bess: {users: [ann]}\n---\nText",
    "nothing": "---\naccess:\n---\nText",
    "YAML with errors": "---\ntitle: Part 1: Cats\naccess: {users: [ann]}\n---\nText",
    "a list without its end": "---\n{title: A, access: {users: [ann]}\n---\nText",
    "two lists": "---\naccess: {users: [ann]}\naccess: {everybody: true}\n---\nText",
    "in a list": "---\n- access: {users: [ann]}\n---\nText",
    "in another field": "---\nparams:\n  access: {users: [ann]}\n---\nText",
    "too long": "---\nx: " + "y" * 17_000 + "\naccess: {users: [ann]}\n---\nText",
    "without an end": "---\ntitle: A\naccess: {users: [ann]}\n--\nText",
    "without delimiters": "title: A\naccess: staff\n\nText",
    "delimiters of a program": "//---\n//access: staff\n//---\nText",
    "a key above its value": "---\naccess\n  : {users: [ann]}\n---\nText",
    "TOML as YAML": "---\n[access]\nusers = ['ann']\n---\nText",
    "TOML in a table": "+++\n[params]\naccess = 'public'\n+++\nText",
    "TOML with two tables": "+++\n[[access]]\nusers = ['ann']\n+++\nText",
    "dotted TOML": "+++\naccess.everybody = true\naccess.users = ['ann']\n+++\nText",
    "TOML with errors": "+++\ndate = 2024-13-45\n[access]\nusers = ['ann']\n+++\nText",
    "TOML without an end": '+++\ntitle = "A"\naccess = { users = ["ann"] }\nText',
    "long TOML": '+++\nx = """\n' + "y\n" * 9_000 + '"""\n[access]\nusers = ["ann"]\n+++\nText',
    "JSON with two lists": '{\n  "access": {"users": ["ann"]},\n  "access": {"everybody": true}\n}\nText',
    "JSON with errors": '{\n  "title": "A"\n  "access": {"users": ["ann"]}\n}\nText',
    "below empty lines": "\r\n\n---\naccess: {users: [ann]}\n---\nText",
    "below a comment": "<!-- c -->\n---\ntitle: A\na slip\naccess: public\n---\nText",
    "in a comment": "<!--\n---\naccess: staff\n---\n-->\n# A",
    "a second block": "---\ntitle: A\n---\n---\naccess: {users: [ann]}\n---\nText.",
    "behind the block": "---\ntitle: A\n---\naccess: staff\n---\nText",
}  # fmt: skip
READ: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "YAML": ("---\naccess: {users: [ann], groups: red}\n---\nText", ("group:red", "user:ann")),
    "everybody": ("---\naccess: {everybody: true}\n---\nText", None),
    "old line ends": ("---\raccess: {users: [ann]}\r---\rText.", ("user:ann",)),
    "a table of TOML": ('+++\n[access]\nusers = "ann"\ngroups = ["red"]\n+++\nText.', ("group:red", "user:ann")),
    "keys of TOML": ('+++\naccess.users = ["ann"]\naccess.groups = ["red"]\n+++\nText.', ("group:red", "user:ann")),
    "JSON": ('{\n  "access": {"users": ["ann"]}\n}\nText.', ("user:ann",)),
    "another field": ("---\naccessories: many\ntitle: Remote access: a guide\n# access: staff\n---\nText", None),
    "fields above prose": ("Author: Ann\nDate: today\n\n- Access: by bus\n", None),
    "prose": ("# Museum\n\n- Access: by bus\n\nAccess: public\n", None),
    "below a heading of two lines": ("Getting here\n------------\n\nAccess: by bus\n", None),
    "code": ("Write this:\n\n```yaml\n---\naccess: {users: [ann]}\n---\n```\n\n    access: {users: [ann]}\n", None),
    "fields below a heading": ("# Title\n---\naccess: {users: [ann]}\n---\nText", None),
    "fields in a quote": ("> ---\n> access: {users: [ann]}\n> ---\n", None),
    "fields at the end": ('# A\n\nText\n\n{\n  "access": {\n    "users": ["ann"]\n  }\n}\n', None),
    "a template": ("{% include access.html %}\n\nText", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "names"), READ.values(), ids=READ)
def test_front_matter_says_who_may_read(text: str, names: tuple[str, ...] | None) -> None:
    found = from_json(to_json(read(text.encode(), None))).declared
    assert found.access == names
    assert "access" not in found.metadata


@pytest.mark.parametrize("text", CLOSED.values(), ids=CLOSED)
def test_what_looks_like_a_list_and_cannot_be_read_opens_nothing(text: str) -> None:
    assert read(text.encode(), None).declared.access == NOBODY


FRONT = "---\ntitle: A\naccess: {users: [ann]}\n---\n\nText."


def cells(*sources: tuple[str, str]) -> str:
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in sources]})


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ([("raw", FRONT), ("markdown", "Text")], ("user:ann",)),
        ([("raw", FRONT.replace("users", "user")), ("markdown", "Text")], NOBODY),
        ([("markdown", "# A"), ("markdown", FRONT)], None),
    ],
)
def test_front_matter_of_notebooks(sources: list[tuple[str, str]], names: tuple[str, ...] | None) -> None:
    assert (
        parsed(make_page(cells(*sources), content_type_of("a.ipynb") or "", "file:///a.ipynb")).access.declared == names
    )


@pytest.mark.parametrize(
    ("given", "names"),
    [(None, None), ([], ()), (["user:ann", "group:a:b"], ("group:a:b", "user:ann")), ([7], ()), ({"users": "x"}, ())],
)
def test_what_a_reader_process_gives(given: object, names: tuple[str, ...] | None) -> None:
    assert checked_names(given) == names

from typing import Any

import pytest

from indexer.read.access_list import NOBODY, checked_names, read_list, readers_of
from indexer.read.extraction import from_json, to_json
from indexer.read.markup.markdown import read


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"users": ["bob", "ann"], "groups": "staff"}, ("group:staff", "user:ann", "user:bob")),
        ({"groups": []}, ()),
        ({}, ()),
        ({"everybody": True}, None),
        ({"users": ["  Zoë\u200b  de  X "]}, ("user:Zoë de X",)),
    ],
)
def test_names(given: dict[str, Any], names: tuple[str, ...] | None) -> None:
    assert readers_of(given) == names


@pytest.mark.parametrize(
    "given",
    [
        "public",
        7,
        {"user": "ann"},
        {"users": 7},
        {"users": [""]},
        {"users": ["x" * 257]},
        {"users": [str(number) for number in range(300)]},
        {"everybody": True, "users": ["ann"]},
    ],
)
def test_what_is_no_list(given: object) -> None:
    with pytest.raises(ValueError, match="access list") as caught:
        readers_of(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", [b"users = ", b"\xff", b"users = 7", b"a = " + b"[" * 100_000, b"[[users]]"])
def test_a_file_that_is_no_list(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever it is
        read_list(body)


def declared(front: str) -> tuple[str, ...] | None:
    found = read(f"---\n{front}\n---\n# A\n\nText.\n".encode(), None)
    again = from_json(to_json(found)).declared
    assert "access" not in again.metadata
    return again.access


@pytest.mark.parametrize(
    ("front", "names"),
    [
        ("access: {users: [ann], groups: red}", ("group:red", "user:ann")),
        ("access: {everybody: true}", None),
        ("title: access to doors", None),
        ("accessories: many", None),
        # what cannot be read is of nobody
        ("access: public", NOBODY),
        ("access: {user: ann}", NOBODY),
        ("title: Part 1: Cats\naccess: {users: [ann]}", NOBODY),
        ("Access: {users: [ann]}", NOBODY),
        ("x: " + "y" * 17_000 + "\naccess: {users: [ann]}", NOBODY),
        ("- access: {users: [ann]}", NOBODY),
        ("access: {users: [ann]}\naccess: {everybody: true}", NOBODY),
        ("\n" * 60_000 + "access: public", NOBODY),  # in linear time
    ],
)
def test_front_matter(front: str, names: tuple[str, ...] | None) -> None:
    assert declared(front) == names


@pytest.mark.parametrize(
    "text",
    [
        "\n---\naccess: {users: [ann]}\n---\nText.",
        "---\ntitle: A\naccess: {users: [ann]}\n--\nText.",
        '+++\ntitle = "A"\naccess = { users = ["ann"] }\nText.',
        "+++\n[params]\naccess = 'public'\n+++\nText.",
        "+++\naccess.everybody = true\naccess.users = ['ann']\n+++\nText.",
        "+++\n[[access]]\nusers = ['ann']\n+++\nText.",
        '+++\nx = """\n' + "y\n" * 9_000 + '"""\n[access]\nusers = ["ann"]\n+++\nText.',
        "Text.\n---\ntags:\n  - a\naccess:\n  users: [ann]\n---\n",
        "---\ntitle: A\n---\n---\naccess: {users: [ann]}\n---\nText.",
        '{\n  "access": {"users": ["ann"]},\n  "access": {"everybody": true}\n}\nText.',
        '{\n  "title": "A"\n  "access": {"users": ["ann"]}\n}\nText.',
    ],
)
def test_front_matter_that_is_none_opens_nothing(text: str) -> None:
    assert read(text.encode(), None).declared.access == NOBODY


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("---\raccess: {users: [ann]}\r---\rText.", ("user:ann",)),
        ("Text.\n\naccess: public\n", None),
        ('+++\n[access]\nusers = "ann"\ngroups = ["red"]\n+++\nText.', ("group:red", "user:ann")),
        ('+++\naccess.users = ["ann"]\naccess.groups = ["red"]\n+++\nText.', ("group:red", "user:ann")),
        ("+++\naccess = { everybody = true }\n+++\nText.", None),
        ('{\n  "access": {"users": ["ann"]}\n}\nText.', ("user:ann",)),
        ("Write this:\n\n```yaml\n---\naccess: {users: [ann]}\n---\n```\n", None),
    ],
)
def test_front_matter_by_other_lines(text: str, names: tuple[str, ...] | None) -> None:
    assert read(text.encode(), None).declared.access == names


@pytest.mark.parametrize(
    ("given", "names"),
    [(None, None), ([], ()), (["user:ann", "group:a:b"], ("group:a:b", "user:ann")), ([7], ()), ({"users": "x"}, ())],
)
def test_what_a_reader_process_gives(given: object, names: tuple[str, ...] | None) -> None:
    assert checked_names(given) == names

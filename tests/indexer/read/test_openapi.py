import json
from typing import Any

import pytest

from indexer.errors import ParseError
from indexer.read.formats import type_by_content
from indexer.read.openapi import read
from indexer.records import Extraction
from indexer.text import reader_notes

PET = {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "description": "Its `name`."}, "kin": {"type": "array", "items": {"$ref": "#/x/Pet"}},
}}  # fmt: skip


def read_json(**fields: Any) -> Extraction:
    return read(json.dumps({"openapi": "3.1.0", "info": {"title": "Zoo"}, "x": {"Pet": PET}, **fields}).encode(), None)


def test_an_operation() -> None:
    operation = {
        "summary": "Feed a pet", "description": "# When\n\nAt *noon*.", "operationId": "feed", "tags": ["pets"],
        "deprecated": True,
        "parameters": [{"$ref": "#/x/Slow"}, {"name": "n", "in": "query", "description": "Count", "schema":
                        {"type": "integer", "default": 2, "enum": [1, 2]}}],
        "requestBody": {"description": "A pet.", "content": {"application/json": {"schema": {"$ref": "#/x/Pet"}}}},
        "responses": {"200": {"$ref": "#/x/All%20~0~1%7Bdone%7D"}, "default": {"description": "Failed"}},
    }  # fmt: skip
    shared = {
        "Pet": PET,
        "Slow": {"name": "slow", "in": "header", "required": True, "schema": {"type": "boolean"}},
        "All ~/{done}": {
            "description": "Fed",
            "content": {"a/b": {"schema": {"type": "array", "items": {"$ref": "#/x/Pet"}}}},
        },
    }
    path = {"post": operation, "parameters": [{"name": "id", "in": "path", "required": True}]}
    content = read_json(paths={"/pets/{id}": path}, x=shared)
    assert content.title == "Zoo"
    [section] = content.sections
    assert (section.path, section.anchor) == (("Zoo", "pets", "POST /pets/{id}", "When"), "feed")
    lines = section.text.split("\n")
    assert lines[:11] == [
        "POST /pets/{id}: Feed a pet", "", "Operation: feed", "", "At noon.", "", "Deprecated: feed", "", "Parameters:",
        "- id (path, required)", "- slow (header, boolean, required)",
    ]  # fmt: skip
    assert lines[11] == "- n (query, integer): Count One of: 1, 2. Default: 2."
    assert lines[13:16] == [
        "Request body (application/json) object: A pet.", "- name (string, required): Its name.",
        "- kin (array of object)",
    ]  # fmt: skip
    assert "Response 200 (a/b) array of object: Fed\n- [].name (string, required): Its name." in section.text
    assert lines[-1] == "Response default: Failed"


def test_a_document_of_version_2_in_yaml() -> None:
    text = (
        "swagger: '2.0'\ninfo: {title: Zoo, description: All pets.}\ntags:\n- {name: pets, description: Of pets}\n"
        "paths:\n  /pets:\n    put:\n      parameters:\n      "
        "- &pet {in: body, name: pet, schema: {$ref: '#/definitions/P'}}\n"
        "      responses:\n        204: {description: Done}\n    post:\n      parameters: [*pet]\n"
        "definitions:\n  P:\n    allOf:\n    - properties:\n        a: {type: string, format: date}\n"
    )
    sections = read(text.encode(), None).sections
    assert [(section.path, section.text) for section in sections] == [
        (("Zoo",), "All pets."),
        (("Zoo", "pets"), "Of pets"),
        (("Zoo", "PUT /pets"), "PUT /pets\n\nRequest body\n- a (string date)\n\nResponse 204: Done"),
        (("Zoo", "POST /pets"), "POST /pets\n\nRequest body\n- a (string date)"),
    ]


def test_webhooks() -> None:
    content = read_json(webhooks={"fed": {"post": {"summary": "Call"}}})
    assert [section.path[-1] for section in content.sections] == ["POST fed"]


def test_references_end() -> None:
    reader_notes.take()
    loops = {"A": {"$ref": "#/x/A"}, "B": {"properties": {"b": {"$ref": "#/x/B"}}}}
    bodies = {
        "1": {"$ref": "#/x/A"},
        "2": {"schema": {"$ref": "#/x/B"}},
        "3": {"$ref": "http://a.test/x"},
        "4": {"$ref": "y"},
    }
    [section] = read_json(paths={"/": {"get": {"responses": bodies}}}, x=loops).sections
    assert section.text == "GET /\n\nResponse 2\n- b\n- b.b\n- b.b.b\n- b.b.b.b"
    assert reader_notes.take() == ("an OpenAPI reference to another document was not followed",)


def test_bombs() -> None:
    rows = "".join(f"a{n}: &a{n} {{allOf: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))
    bomb = f"openapi: 3.0.0\na0: &a0 {{}}\n{rows}paths:\n  /:\n    get: {{requestBody: {{schema: *a29}}}}\n"
    assert len(read(bomb.encode(), None).sections) == 1
    many = {
        f"/{n}": {"get": {"responses": {str(m): {"schema": {"$ref": "#/x/W"}} for m in range(20)}}} for n in range(50)
    }
    wide: dict[str, Any] = {"properties": {str(n): {"$ref": "#/x/W"} for n in range(1_000)}}
    assert sum(len(section.text) for section in read_json(paths=many, x={"W": wide}).sections) < 3_000_000


@pytest.mark.parametrize(
    "text", ["{", "{} x", "a: [", "- a", "a: b", "", "openapi", '{"a": {"openapi": "3.0.0"}}', "[" * 9999]
)
def test_others_are_no_openapi(text: str) -> None:
    with pytest.raises(ParseError):
        read(text.encode(), None)


@pytest.mark.parametrize(
    ("name", "body", "content_type"),
    [
        ("a.json", b'{"info": {}, "openapi": "3.0.1"}', "application/openapi+json"),
        ("a.yaml", b"info: {}\nopenapi: '3.1.0'\n", "application/openapi+yaml"),
        ("a.yml", b'swagger: "2.0"\n', "application/openapi+yaml"),
        ("a.yml", b'{"swagger": "2.0"}', "application/openapi+yaml"), ("a.json", b'{"openapi": "1"}', None),
        ("a.yaml", b"x:\n  openapi: 3.0.0\n", None), ("a.json", b"[]", None),
        ("README", b"Read me.", "text/plain"), ("Makefile", b"all:\n\tcc\n", "text/plain"), ("README", b"", None),
        ("prog", b"\x7fELF\x02\x01", None), ("data", b"abc\x00", None),
        ("NEWS", "Käse".encode("latin-1"), "text/plain"),
        ("LISEZ", "\ufefftexte".encode("utf-16"), "text/plain"), ("a.log", b"", "text/plain"),
        ("b.x", b"text", None), ("README.Debian", b"Text.", "text/plain"), ("NEWS.old", b"Text.", "text/plain"),
        ("README.old", b"abc\x00", None), ("LOGO.svg", b"<svg/>", None), ("IMG_1.cr2", b"raw", None),
        ("inbox", b"From a Mon\nSubject: x\n\nText.\n", "application/mbox"), ("letter", b"From me\n", "text/plain"),
    ],
)  # fmt: skip
def test_types_by_content(name: str, body: bytes, content_type: str | None) -> None:
    assert type_by_content(name, body) == content_type

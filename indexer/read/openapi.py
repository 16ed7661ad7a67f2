"""Convert OpenAPI documents of versions 2 and 3, in JSON or YAML, to one section per operation.

References (`$ref`) within a document are followed to a limited depth. References to other documents are not followed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote

import yaml

from indexer.errors import ParseError
from indexer.read.markup.markdown import render
from indexer.records import Extraction, Section
from indexer.text import reader_notes
from indexer.text.charsets import decode

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_MAX_OBJECT_DEPTH = 4
_MAX_FIELDS = 100
_MAX_REFERENCE_HOPS = 8
_MAX_SCHEMA_VISITS = 2_000_000
_MARKDOWN = re.compile(r"!?\[([^\[\]]{1,300})\]\([^()\s]{0,500}\)|[`*]+(?=\S)|(?<=\S)[`*]+|</?\w[^<>]{0,200}>")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # creates only strings, lists and dicts; never copies aliases


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the sections of an OpenAPI document. Raises ParseError if the document is not OpenAPI."""
    text = decode(body, charset, markup=False)
    try:
        document = json.loads(text) if text.lstrip()[:1] == "{" else yaml.load(text, Loader=_LOADER)  # noqa: S506
    except (ValueError, yaml.YAMLError) as error:
        raise ParseError("invalid JSON or YAML") from error
    if not isinstance(document, dict) or not ("openapi" in document or "swagger" in document):
        raise ParseError("not an OpenAPI document")
    reader = _Reader(document)
    return Extraction(reader.title or None, tuple(reader.sections()))


class _Reader:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document, self._info, self._steps = document, _dict(document.get("info")), 0
        self.title = _line(self._info.get("title"))

    def sections(self) -> Iterator[Section]:
        """Yield a section for the description of the document, for each group of operations and for each operation."""
        yield from self._rendered((), None, self._info.get("description") or self._info.get("summary"))
        for tag in map(_dict, _list(self._document.get("tags"))):
            yield from self._rendered((_line(tag.get("name")),), None, tag.get("description"))
        for path, item in chain(*(_dict(self._document.get(group)).items() for group in ("paths", "webhooks"))):
            yield from self._operations(str(path), self._resolved(item))

    def _rendered(
        self, path: Iterable[str], anchor: str | None, description: object, before: str = "", *after: str
    ) -> Iterator[Section]:
        """Yield the sections of a Markdown description. Add the texts `before` and `after` to the first section."""
        path = tuple(filter(None, (self.title, *path)))
        first, *rest = render(_text(description)).extraction().sections or (Section((), None, ""),)
        text = "\n\n".join(filter(None, (before, first.text, *after)))
        for section in (Section(first.path, None, text), *rest):
            if section.text:
                yield Section((*path, *section.path), anchor, section.text)

    def _operations(self, path: str, item: dict[str, Any]) -> Iterator[Section]:
        for method in _METHODS:
            operation = _dict(item.get(method))
            if not operation:
                continue
            name, identity = f"{method.upper()} {path}", _line(operation.get("operationId"))
            either = {**item, **operation}
            head = f"{name}: {_line(either.get('summary'))}".rstrip(": ")
            inputs = list(map(self._resolved, _list(item.get("parameters")) + _list(operation.get("parameters"))))
            parameters = [value for value in inputs if value.get("in") != "body"]
            requests = [
                body for body in (*inputs, operation.get("requestBody")) if _dict(body).get("in", "body") == "body"
            ]
            bodies: list[tuple[str, object]] = [("Request body", body) for body in requests]
            bodies += [(f"Response {status}", body) for status, body in _dict(operation.get("responses")).items()]
            after = [
                f"Deprecated: {identity or name}" * (str(operation.get("deprecated")).lower() == "true"),
                "\n".join(["Parameters:", *map(self._parameter, parameters)] if parameters else ()),
                *(self._body(label, self._resolved(body)) for label, body in bodies),
            ]
            group = map(_line, _list(operation.get("tags"))[:1])
            text = "\n\n".join(filter(None, (head, f"Operation: {identity}" * bool(identity))))
            yield from self._rendered((*group, name), identity or None, either.get("description"), text, *after)

    def _parameter(self, parameter: dict[str, Any]) -> str:
        schema = {**self._resolved(parameter.get("schema")), **parameter}
        return self._entry(_line(schema.get("name")), schema, _line(schema.get("in")), schema.get("required"))

    def _body(self, label: str, body: dict[str, Any]) -> str:
        """Return the text of a request or response, with the fields of its first schema."""
        media = _dict(body.get("content"))
        schema = next((schema for one in (body, *map(_dict, media.values())) if (schema := one.get("schema"))), None)
        lines = list(islice(self._fields(schema), _MAX_FIELDS + 1))
        if len(lines) > _MAX_FIELDS:
            reader_notes.add("fields of a large body in an OpenAPI document were left out")
        words = [f"({', '.join(media)})" * bool(media), self._kind(self._resolved(schema)) * bool(schema)]
        head = f"{' '.join(filter(None, (label, *words)))}: {_plain(body.get('description'))}"
        return "\n".join((head.rstrip(": "), *lines[:_MAX_FIELDS])) if body else ""

    def _fields(self, schema: object, prefix: str = "", depth: int = 0) -> Iterator[str]:
        """Yield a line for each field of a schema and of its nested objects."""
        resolved = self._resolved(schema)
        if depth < _MAX_OBJECT_DEPTH:
            for name, value in _dict(resolved.get("properties")).items():
                inner = self._resolved(value)
                yield self._entry(f"{prefix}{name}", inner, "", name in _list(resolved.get("required")))
                yield from self._fields(inner, f"{prefix}{name}.", depth + 1)
            for option in chain(*(_list(resolved.get(word)) for word in ("allOf", "oneOf", "anyOf"))):
                yield from self._fields(option, prefix, depth + 1)
            yield from self._fields(resolved.get("items"), f"{prefix.removesuffix('.')}[].", depth + 1)

    def _entry(self, name: str, schema: dict[str, Any], place: str, required: object) -> str:
        words = (place, self._kind(schema), "required" * (required in (True, "true")))
        values, default = ", ".join(map(str, _list(schema.get("enum"))[:_MAX_FIELDS])), schema.get("default")
        more = [f"One of: {values}."] * bool(values) + [f"Default: {default}."] * isinstance(default, str | int | float)
        described = " ".join(filter(None, (_plain(schema.get("description")), *more)))
        return f"- {name} ({', '.join(filter(None, words))}): {described}".replace(" ()", "").rstrip(": ")

    def _kind(self, schema: dict[str, Any]) -> str:
        kind, items = schema.get("type"), self._resolved(schema.get("items"))
        words = [*map(_line, kind if isinstance(kind, list) else (kind,)), _line(schema.get("format"))]
        inner = _line(items.get("type"))
        return " ".join(filter(None, (*words, f"of {inner}" * bool(inner))))

    def _resolved(self, value: object) -> dict[str, Any]:
        """Return an object of the document. If it has a `$ref`, return the target, or {} if the target is missing."""
        for _ in range(_MAX_REFERENCE_HOPS):
            self._steps += 1
            if not isinstance(value, dict) or self._steps > _MAX_SCHEMA_VISITS:
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            if not reference.startswith("#/"):
                reader_notes.add("an OpenAPI reference to another document was not followed")
                return {}
            value = self._document
            for step in reference[2:].split("/")[:20]:
                value = _dict(value).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return {}


def _plain(value: object) -> str:
    return _MARKDOWN.sub(r"\1", _line(value))


def _line(value: object) -> str:
    return " ".join(_text(value).split())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

"""Documents pushed over REST: accepted, withdrawn, and what became of them, for callers that may write."""

import base64
import re
from typing import Any

from flask import Blueprint, Response, current_app, jsonify, url_for
from werkzeug.exceptions import NotImplemented as NotSetUp
from werkzeug.exceptions import ServiceUnavailable
from werkzeug.http import parse_options_header

from rag.errors import DocumentRefused
from rag.query.filters import MOST_VALUES
from rag.serving.pushed_queue import LONGEST_NAME, LONGEST_READER, LONGEST_VALUE, MOST_READERS, PUSHED_TYPES
from web.api.jobs import NAME
from web.api.parameters import (
    collection_among,
    collection_field,
    collection_in_address,
    given_in_address,
    id_in_path,
    read_object,
)
from web.api.schemas import COUNT, DAY, MAYBE, STRING, VALUE, VALUES_OF, listed, request_of, structure
from web.fields import SOMETHING, FieldError, check, given_fields, nullable
from web.guards.concurrency import ConcurrencyLimit
from web.guards.scoped_retriever import OUTSIDE, may_write
from web.openapi import define, operation
from web.retriever import Pushes
from web.sizes import MAX_DOCUMENT_BYTES

MOST_AT_ONCE = 2  # documents that one worker takes in: each is in memory three times over
PLAIN = "text/plain"
_URL = {
    "type": "string",
    "minLength": 1,
    "maxLength": 2000,
    "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?(:[1-5]?[0-9]{1,4})?([/?][^\u0000-\u0020#\u007f-\u00a0]*)?$",
    "description": "its http or https address, without a fragment; nobody fetches it",
}
_TEXT = STRING | {"description": "the document, if it is text"}
_BASE64 = {
    "type": "string",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "description": "the document as bytes, in place of `text`",
}
_TYPE = {
    "type": "string",
    "maxLength": 200,
    "pattern": f"^({'|'.join(map(re.escape, PUSHED_TYPES))})(; ?charset=[A-Za-z0-9_.:-]+)?$",
    "default": PLAIN,
    "description": "media type, of bytes with their charset if it is known, as in `text/html; charset=latin-1`",
}
_VALUE = VALUE | {"pattern": SOMETHING}
_NAMED = _VALUE | {"maxLength": LONGEST_NAME}
_VALUED = _VALUE | {"maxLength": LONGEST_VALUE}
_METADATA = {
    "type": "object",
    "maxProperties": MOST_VALUES,
    "propertyNames": _NAMED,
    "additionalProperties": nullable({"anyOf": [_VALUED, listed(_VALUED, minItems=1, maxItems=MOST_VALUES)]}),
    "description": "values by name, to filter by; go before the document's own",
}
_STATED: dict[str, dict[str, Any]] = {
    "title": _VALUE | {"maxLength": 1000, "description": "goes before the document's own"},
    "language": VALUE | VALUES_OF["language"] | {"description": "a tag such as `en`, likewise"},
    "date": DAY | {"description": "day of the last change, likewise"},
    "collection": NAME | {"description": "name of a collection; made if it is missing"},
}
_READER = _VALUE | {"maxLength": LONGEST_READER}
_NAMES = listed(_READER, maxItems=MOST_READERS // 2)
_ACCESS = {
    "type": "object",
    "properties": {"users": nullable(_NAMES), "groups": nullable(_NAMES)},
    "additionalProperties": False,
    "description": "who may read it, if not everybody: these users, and users of these groups; of none, nobody",
}
_FIELDS = {
    "text": _TEXT,
    "base64": _BASE64,
    "content_type": _TYPE,
    **_STATED,
    "metadata": _METADATA,
    "access": _ACCESS,
}
# One of the two is there, and is not null.
_EITHER = {
    "oneOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("text", "base64")],
}
REQUEST = define("Push", request_of({"url": _URL}, _FIELDS) | _EITHER)
CHANGE = define(
    "Change",
    structure(
        {
            "id": COUNT | {"description": "changes of a collection are numbered in the order in which they came"},
            "collection": STRING,
            "url": STRING,
            "document": STRING | {"description": "id of the document, as hits have it"},
            "action": {"enum": ["put", "delete"]},
            "at": STRING,
            "state": {"enum": ["queued", "indexed", "skipped", "failed", "removed", "superseded"]},
            "reason": MAYBE | {"description": "why it was skipped or failed"},
            "generation": MAYBE | {"description": "the generation that was made with it"},
        }
    ),
)
QUEUE = define(
    "PushQueue",
    structure(
        {
            "collection": STRING,
            "queued": COUNT | {"description": "changes that wait to be indexed"},
            "oldest": MAYBE | {"description": "when the first of them came"},
            "failed": COUNT | {"description": "documents that could not be read, as far back as changes are kept"},
            "documents": COUNT | {"description": "documents that were pushed and not withdrawn"},
            "bytes": COUNT | {"description": "of these"},
            "error": MAYBE | {"description": "why what waits could not be indexed when it was last tried"},
            "changes": listed(CHANGE, description="the latest ones, the last one first"),
        }
    ),
)
_COLLECTION = {"name": "collection", "in": "query", "schema": NAME, "description": NAME["description"]}

blueprint = Blueprint("changes", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)


@blueprint.post("/documents")
@operation(
    summary="Push a document.",
    description="It is on the disk when this is answered, and found within seconds. What was pushed for the same "
    "address before is replaced.",
    role="write",
    request=REQUEST,
    responses={202: CHANGE},
    errors=(409, 501, 507),
)
def put() -> tuple[Response, int, dict[str, str]]:
    """Accept a document and answer the change."""
    give_back = _slots.take(ServiceUnavailable("Too many documents are being sent: try again shortly."))
    try:
        fields = given_fields(read_object(MAX_DOCUMENT_BYTES), ("url", *_FIELDS), "a document")
        given: dict[str, Any] = {name: check(name, fields[name], _STATED[name]) for name in _STATED if name in fields}
        if "url" not in fields:
            raise FieldError("url", "url is missing: every document needs an address.")
        body, content_type, charset = _content_of(fields)
        change = _pushes(given.get("collection", NAME["default"])).put(
            str(check("url", fields["url"], _URL)),
            body,
            content_type,
            charset=charset,
            metadata=_metadata_of(fields.get("metadata", {})),
            access=_access_of(fields.get("access")),
            **given,
        )
    finally:
        give_back()
    return _accepted(change)


@blueprint.delete("/documents")
@operation(
    summary="Withdraw a document that was pushed.",
    role="write",
    parameters=[
        {"name": "url", "in": "query", "required": True, "schema": _URL, "description": "its address"},
        _COLLECTION,
    ],
    responses={202: CHANGE},
    errors=(404, 409, 501, 507),
)
def withdraw() -> tuple[Response, int, dict[str, str]]:
    """Accept that a document is to go, and answer the change."""
    given = given_in_address(("url", "collection"))
    if "url" not in given:
        raise FieldError("url", "url is missing: it names the document.")
    collection = collection_among(given)
    return _accepted(_pushes(collection).delete(str(check("url", given["url"], _URL)), collection))


@blueprint.get("/changes")
@operation(
    summary="List what was pushed and withdrawn, and how much of it waits.",
    role="write",
    parameters=[_COLLECTION],
    responses={200: QUEUE},
    errors=(501,),
)
def list_all() -> Response:
    """Answer the queue of a collection."""
    collection = collection_in_address()
    return jsonify(_pushes(collection).queue(collection))


@blueprint.get("/changes/<id>")
@operation(
    summary="Show what became of a document that was pushed or withdrawn.",
    role="write",
    parameters=[
        id_in_path("`id` of a change"),
        _COLLECTION,
    ],
    responses={200: CHANGE},
    errors=(404, 501),
)
def show(id: str) -> Response:
    """Answer one change."""
    collection = collection_in_address()
    return jsonify(_pushes(collection).change(id, collection))


def _content_of(fields: dict[str, object]) -> tuple[bytes, str, str | None]:
    """The document, its media type and its charset. Raises FieldError or UnsupportedMediaType."""
    given = str(check("content_type", fields.get("content_type", PLAIN), _TYPE | {"pattern": SOMETHING}))
    content_type, parameters = parse_options_header(given)
    content_type = content_type.lower()
    if ("text" in fields) == ("base64" in fields):
        raise FieldError("text", "A document has either text or base64.")
    if "text" in fields:
        return str(_checked("text", fields["text"], _TEXT)).encode(), content_type, "utf-8"
    encoded = str(_checked("base64", fields["base64"], _BASE64))
    return base64.b64decode(encoded), content_type, parameters.get("charset")


def _checked(name: str, value: object, schema: dict[str, Any]) -> object:
    """Return a content, which may be empty."""
    return value if value == "" else check(name, value, schema)


def _metadata_of(given: object) -> dict[str, Any]:
    if not isinstance(given, dict) or len(given) > MOST_VALUES:
        raise FieldError("metadata", f"metadata must be an object of at most {MOST_VALUES} names with their values.")
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        check("metadata", name, _NAMED)
        for each in values:
            check("metadata", each, _VALUED)
        if not 0 < len(values) <= MOST_VALUES:
            raise FieldError("metadata", f"Each name has 1 to {MOST_VALUES} values.")
    return given


def _access_of(given: object) -> dict[str, Any] | None:
    if given is not None and (not isinstance(given, dict) or not given.keys() <= {"users", "groups"}):
        raise FieldError("access", "access must be an object with users, groups, or both: lists of names.")
    if given is None:
        return None
    given = {name: names for name, names in given.items() if names is not None}
    for names in given.values():
        if not isinstance(names, list):
            raise FieldError("access", "users and groups must be lists of names.")
        for name in names:
            check("access", name, _READER)
    return given


def _accepted(change: dict[str, Any]) -> tuple[Response, int, dict[str, str]]:
    fields: dict[str, Any] = collection_field(change["collection"])
    return jsonify(change), 202, {"Location": url_for("changes.show", id=change["id"], **fields)}


def _pushes(collection: str) -> Pushes:
    """Return what accepts documents. Raises DocumentRefused for a collection that the caller may not write."""
    pushes: Pushes | None = current_app.extensions["pushes"]
    if pushes is None:
        raise NotSetUp("This server cannot index documents.")
    if not may_write(collection):
        raise DocumentRefused("collection", OUTSIDE)
    return pushes

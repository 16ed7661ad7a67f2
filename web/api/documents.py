"""REST routes that read, export, push and withdraw documents, and that start and stop builds of the index."""

import json
from collections.abc import Iterator
from threading import Lock
from typing import Annotated, Any

from flask import Blueprint, Response, jsonify, url_for
from msgspec import Meta
from werkzeug.exceptions import ServiceUnavailable

from rag import deadline, messages
from rag.errors import FieldError, JobMissing, RequestRefused
from rag.jobs.jobs import JobManager
from rag.jobs.pushes import PushedQueue
from rag.serving.live import OpenDocument
from web.api.requests import collection_field, read_json, read_query, retriever, service
from web.guards.access import NOT_WRITABLE, may_write
from web.guards.limits import MAX_BODY_BYTES, MAX_DOCUMENT_BYTES, take_slot
from web.openapi import Content, Operation

JSON_LINES = "application/jsonl"
MAX_EXPORTS = 4  # per worker process
# A pushed document must have either `text` or `base64`.
_CONTENT = [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("text", "base64")]
_PUSH = Annotated[messages.Push, Meta(extra_json_schema={"oneOf": _CONTENT})]

blueprint = Blueprint("documents", __name__, url_prefix="/api/v1")
jobs = Blueprint("jobs", __name__, url_prefix="/api/v1/index")
_export_lock = Lock()  # parallel exports would only compete for the GIL


@blueprint.get("/documents/<id>")
@Operation(role="read", query=messages.InCollection, responses={200: messages.DocumentListing}, errors=(404,))
def document(id: str) -> Response:
    """Read a document."""
    opened = retriever().open_document(id, read_query(messages.InCollection).collection)
    return Response(_json_pieces(opened), content_type="application/json")


@blueprint.get("/documents")
@Operation(
    role="read",
    query=messages.InCollection,
    responses={200: Content(JSON_LINES, {"type": "string"})},
    errors=(404,),
    takes_long=True,
)
def documents() -> Response:
    """Export all documents of a collection as JSON Lines. A worker process sends at most 4 exports at once."""
    exports = retriever().documents(read_query(messages.InCollection).collection)
    release = take_slot("exports", MAX_EXPORTS, ServiceUnavailable("Too many exports are running: try again shortly."))
    deadline.lift()

    def pieces() -> Iterator[bytes]:
        for document in exports:
            yield from _json_pieces(document)
            yield b"\n"

    response = Response(_one_export_at_a_time(pieces()), content_type=JSON_LINES)
    response.call_on_close(release)
    return response


def _json_pieces(document: OpenDocument) -> Iterator[bytes]:
    """Yield the JSON of a document in parts, each with a few passages."""
    text = json.dumps(document.facts, ensure_ascii=False).removesuffix("}") + ', "passages": ['
    for batch in document.batches():
        yield (text + json.dumps(batch, ensure_ascii=False)[1:-1]).encode("utf-8", "replace")
        text = ", "
    yield b"]}"


def _one_export_at_a_time(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an export. A lock lets only one export per process compute a piece at a time."""
    while True:
        with _export_lock:
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


@blueprint.post("/documents")
@Operation(role="write", body=_PUSH, responses={202: messages.IndexChange}, errors=(409, 501, 507), takes_long=True)
def push() -> tuple[Response, int, dict[str, str]]:
    """Push a document. It is stored immediately and replaces the document with the same address."""
    sent = read_json(messages.Push, MAX_DOCUMENT_BYTES, "a document")
    if (sent.text is None) == (sent.base64 is None):
        raise FieldError("text", "A document has either text or base64.")
    return _accepted(_queue(sent.collection).put(sent))


@blueprint.delete("/documents")
@Operation(role="write", query=messages.Withdrawal, responses={202: messages.IndexChange}, errors=(404, 409, 501, 507))
def withdraw() -> tuple[Response, int, dict[str, str]]:
    """Withdraw a document that was pushed."""
    withdrawal = read_query(messages.Withdrawal)
    return _accepted(_queue(withdrawal.collection).delete(withdrawal.url, withdrawal.collection))


@blueprint.get("/changes")
@Operation(role="write", query=messages.InPushed, responses={200: messages.PushQueue}, errors=(501,))
def changes() -> Response:
    """List pushed and withdrawn documents, and how many of them are not indexed yet."""
    collection = read_query(messages.InPushed).collection
    return jsonify(_queue(collection).queue(collection))


@blueprint.get("/changes/<id>")
@Operation(role="write", query=messages.InPushed, responses={200: messages.IndexChange}, errors=(404, 501))
def change(id: str) -> Response:
    """Show the state of a pushed or withdrawn document."""
    collection = read_query(messages.InPushed).collection
    return jsonify(_queue(collection).change(id, collection))


def _accepted(change: dict[str, Any]) -> tuple[Response, int, dict[str, str]]:
    address = url_for("documents.change", id=change["id"], **collection_field(change["collection"]))
    return jsonify(change), 202, {"Location": address}


def _queue(collection: str) -> PushedQueue:
    """Return the queue for pushed documents. Raises RequestRefused if the caller may not change the collection."""
    pushes: PushedQueue = service("pushes")
    if not may_write(collection):
        raise RequestRefused("collection", NOT_WRITABLE)
    return pushes


def _jobs() -> JobManager:
    return service("jobs")  # type: ignore[no-any-return]  # services have no types


@jobs.post("")
@Operation(role="write", body=messages.BuildRequest, responses={202: messages.Job}, errors=(404, 409, 501))
def start() -> tuple[Response, int, dict[str, str]]:
    """Start building the index. Only one build runs at a time."""
    build = read_json(messages.BuildRequest, MAX_BODY_BYTES)
    if not may_write(build.collection):
        raise RequestRefused("collection", NOT_WRITABLE, 403)
    job = _jobs().start(build.collection, full=build.full)
    return jsonify(job), 202, {"Location": url_for("jobs.show", id=job["id"])}


@jobs.get("")
@Operation(role="write", responses={200: messages.Jobs}, errors=(501,))
def list_all() -> Response:
    """List the builds, newest first."""
    read_query(messages.Request)
    return jsonify(jobs=[job for job in _jobs().all() if may_write(job["collection"])])


@jobs.get("/<id>")
@Operation(role="write", responses={200: messages.Job}, errors=(404, 501))
def show(id: str) -> Response:
    """Show a build."""
    read_query(messages.Request)
    job = _jobs().get(id)
    if not may_write(job["collection"]):
        raise JobMissing(id)
    return jsonify(job)


@jobs.delete("/<id>")
@Operation(role="write", responses={202: messages.Job}, errors=(404, 409, 501))
def cancel(id: str) -> tuple[Response, int]:
    """Cancel a build. The index does not change."""
    show(id)  # raises JobMissing if the caller may not see the build
    return jsonify(_jobs().cancel(id)), 202

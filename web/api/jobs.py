"""Builds of the index over REST: begun, followed and stopped by callers that may write."""

from typing import Any

from flask import Blueprint, Response, current_app, jsonify, url_for
from werkzeug.exceptions import NotImplemented as NotSetUp

from rag.errors import JobMissing, JobRefused
from web.api.parameters import COLLECTION, given_in_address, id_in_path, read_object
from web.api.schemas import COUNT, MAYBE, STRING, listed, request_of, structure
from web.fields import FieldError, check, given_fields
from web.guards.scoped_retriever import OUTSIDE, may_write
from web.openapi import define, operation
from web.retriever import Jobs
from web.sizes import MAX_BODY_BYTES

MOST_SOURCES = 1000
STATES = ["running", "cancelling", "done", "failed", "cancelled"]
SOURCE = {"type": "string", "minLength": 1, "maxLength": 2000}
FLAGS = {
    "add": {"type": "boolean", "default": False, "description": "whether to keep the sources of the index as well"},
    "full": {"type": "boolean", "default": False, "description": "whether to reprocess unchanged pages too"},
}
SOURCES = listed(SOURCE, maxItems=MOST_SOURCES) | {"description": "sources to index; none = those of the live index"}
NAME = COLLECTION | {"pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"}
REQUEST = define("Build", request_of({}, {"sources": SOURCES, **FLAGS, "collection": NAME}))
_PROGRESS = structure(
    {
        "phase": {"type": "string"},
        "pages": COUNT,
        "pages_due": COUNT,
        "chunks_embedded": COUNT,
        "chunks_waiting": COUNT,
        "seconds": {"type": "number", "minimum": 0},
    }
)
JOB = define(
    "Job",
    structure(
        {
            "id": STRING,
            "created_at": STRING,
            "collection": STRING,
            "sources": listed(STRING),
            "add": {"type": "boolean"},
            "full": {"type": "boolean"},
            "progress": {"anyOf": [_PROGRESS, {"type": "null"}]},
            "ended_at": MAYBE,
            "report": {"type": ["object", "null"], "description": "what `pilotlight index --json` prints"},
            "error": MAYBE,
            "state": {"enum": STATES},
        }
    ),
)
_ID = id_in_path("`id` of a job")
_ERRORS = (409, 501)

blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1")


@blueprint.post("/index")
@operation(
    summary="Start building the index.",
    description="One build runs at a time. Searches continue meanwhile, and use the new index once it is published.",
    role="write",
    request=REQUEST,
    responses={202: JOB},
    errors=(404, *_ERRORS),
)
def start() -> tuple[Response, int, dict[str, str]]:
    """Begin a job and answer what is known of it."""
    names = ("sources", *FLAGS, "collection")
    fields = given_fields(read_object(MAX_BODY_BYTES), names, "this request")
    sources = fields.get("sources", [])
    if not isinstance(sources, list) or len(sources) > MOST_SOURCES:
        raise FieldError("sources", f"sources must be a list of at most {MOST_SOURCES} addresses, folders and files.")
    for place, source in enumerate(sources):
        check(f"sources.{place}", source, SOURCE)
    flags: dict[str, Any] = {name: check(name, fields.get(name, False), schema) for name, schema in FLAGS.items()}
    collection = str(check("collection", fields.get("collection", NAME["default"]), NAME))
    if not may_write(collection):
        raise JobRefused("collection", OUTSIDE)
    job = _jobs().start(sources=sources, collection=collection, **flags)
    return jsonify(job), 202, {"Location": url_for("jobs.show", id=job["id"])}


@blueprint.get("/index")
@operation(
    summary="List the builds, newest first.",
    role="write",
    responses={200: structure({"jobs": listed(JOB)})},
    errors=(501,),
)
def list_all() -> Response:
    """Answer the jobs that are remembered."""
    given_in_address()
    return jsonify(jobs=[job for job in _jobs().all() if may_write(job["collection"])])


@blueprint.get("/index/<id>")
@operation(summary="Show a build.", role="write", parameters=[_ID], responses={200: JOB}, errors=(404, 501))
def show(id: str) -> Response:
    """Answer one job."""
    given_in_address()
    return jsonify(_job(id))


@blueprint.delete("/index/<id>")
@operation(
    summary="Cancel a build.",
    description="The index does not change. The process takes a moment to stop.",
    role="write",
    parameters=[_ID],
    responses={202: JOB},
    errors=(404, *_ERRORS),
)
def cancel(id: str) -> tuple[Response, int]:
    """Tell one job to stop."""
    given_in_address()
    return jsonify(_jobs().cancel(_job(id)["id"])), 202


def _job(id: str) -> dict[str, Any]:
    """Return a job of a collection that the caller may write. Raises JobMissing."""
    found = _jobs().get(id)
    if not may_write(found["collection"]):
        raise JobMissing(id)
    return found


def _jobs() -> Jobs:
    jobs: Jobs | None = current_app.extensions["jobs"]
    if jobs is None:
        raise NotSetUp("This server cannot build indexes.")
    return jobs

"""What supervisors and operators call: probes, and builds of the index, which callers that may write start and stop."""

from flask import Blueprint, Response, current_app, jsonify, url_for
from werkzeug.exceptions import NotImplemented as NotSetUp

from rag.errors import JobMissing, JobRefused
from rag.messages import BuildRequest, Job, Live, Request, Status
from rag.messages import Jobs as JobList
from rag.serving.job_manager import JobManager
from web.api.requests import read_json, read_query, retriever
from web.guards.limits import MAX_BODY_BYTES
from web.guards.scoped_retriever import OUTSIDE, may_write
from web.openapi import Operation
from web.problems import problem, respond

health = Blueprint("health", __name__)
jobs = Blueprint("jobs", __name__, url_prefix="/api/v1/index")


@health.get("/livez")
@Operation(summary="Check that the process answers.", role=None, responses={200: Live})
def livez() -> Response:
    """Answer 200 for as long as the process serves requests."""
    return jsonify(live=True)


@health.get("/readyz")
@Operation(summary="Check readiness, and what is served.", role=None, responses={200: Status}, errors=(503,))
def readyz() -> Response:
    """Answer 200 with the retriever's status while a search would be answered, else 503 with the reason."""
    status = retriever().status()
    if current_app.extensions["draining"].is_set():
        return respond(problem(503, "The server is shutting down: it finishes running requests, then stops."))
    if retriever().ready:
        return jsonify({**status, "ready": True})
    return respond(problem(503, str(status.get("reason") or "The model and the index are still loading.")))


@jobs.post("")
@Operation(
    summary="Start building the index.",
    description="One build runs at a time. Searches continue meanwhile, and use the new index once it is published.",
    role="write",
    body=BuildRequest,
    responses={202: Job},
    errors=(404, 409, 501),
)
def start() -> tuple[Response, int, dict[str, str]]:
    """Start a job and answer its state."""
    asked = read_json(BuildRequest, MAX_BODY_BYTES)
    if not may_write(asked.collection):
        raise JobRefused("collection", OUTSIDE)
    job = _manager().start(sources=asked.sources, collection=asked.collection, add=asked.add, full=asked.full)
    return jsonify(job), 202, {"Location": url_for("jobs.show", id=job["id"])}


@jobs.get("")
@Operation(summary="List the builds, newest first.", role="write", responses={200: JobList}, errors=(501,))
def list_all() -> Response:
    """Answer the jobs that the server remembers."""
    read_query(Request)
    return jsonify(jobs=[job for job in _manager().all() if may_write(job["collection"])])


@jobs.get("/<id>")
@Operation(summary="Show a build.", role="write", responses={200: Job}, errors=(404, 501))
def show(id: str) -> Response:
    """Answer one job."""
    read_query(Request)
    job = _manager().get(id)
    if not may_write(job["collection"]):
        raise JobMissing(id)
    return jsonify(job)


@jobs.delete("/<id>")
@Operation(
    summary="Cancel a build.",
    description="The index does not change. The process takes a moment to stop.",
    role="write",
    responses={202: Job},
    errors=(404, 409, 501),
)
def cancel(id: str) -> tuple[Response, int]:
    """Tell one job to stop."""
    show(id)  # raises where the caller may not see it
    return jsonify(_manager().cancel(id)), 202


def _manager() -> JobManager:
    """Return what builds indexes. Raises NotImplemented where nothing does."""
    manager: JobManager | None = current_app.extensions["jobs"]
    if manager is None:
        raise NotSetUp("This server cannot build indexes.")
    return manager

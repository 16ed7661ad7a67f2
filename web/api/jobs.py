"""Builds of the index over REST: started, listed, followed and stopped by callers that may write."""

from typing import Any

from flask import Blueprint, Response, current_app, jsonify, url_for
from werkzeug.exceptions import NotImplemented as NotSetUp

from rag.errors import JobMissing, JobRefused
from rag.messages import BuildRequest, Job, Request
from rag.messages import Jobs as JobList
from rag.serving.job_manager import JobManager
from web.api.requests import read_json, read_query
from web.guards.limits import MAX_BODY_BYTES
from web.guards.scoped_retriever import OUTSIDE, may_write
from web.openapi import operation

blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1")


@blueprint.post("/index")
@operation(
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
    job = _jobs().start(sources=asked.sources, collection=asked.collection, add=asked.add, full=asked.full)
    return jsonify(job), 202, {"Location": url_for("jobs.show", id=job["id"])}


@blueprint.get("/index")
@operation(summary="List the builds, newest first.", role="write", responses={200: JobList}, errors=(501,))
def list_all() -> Response:
    """Answer the jobs that the server remembers."""
    read_query(Request)
    return jsonify(jobs=[job for job in _jobs().all() if may_write(job["collection"])])


@blueprint.get("/index/<id>")
@operation(summary="Show a build.", role="write", responses={200: Job}, errors=(404, 501))
def show(id: str) -> Response:
    """Answer one job."""
    read_query(Request)
    return jsonify(_job(id))


@blueprint.delete("/index/<id>")
@operation(
    summary="Cancel a build.",
    description="The index does not change. The process takes a moment to stop.",
    role="write",
    responses={202: Job},
    errors=(404, 409, 501),
)
def cancel(id: str) -> tuple[Response, int]:
    """Tell one job to stop."""
    read_query(Request)
    return jsonify(_jobs().cancel(_job(id)["id"])), 202


def _job(id: str) -> dict[str, Any]:
    """Return a job of a collection that the caller may write. Raises JobMissing."""
    found = _jobs().get(id)
    if not may_write(found["collection"]):
        raise JobMissing(id)
    return found


def _jobs() -> JobManager:
    """Return what builds indexes. Raises NotImplemented where nothing does."""
    jobs: JobManager | None = current_app.extensions["jobs"]
    if jobs is None:
        raise NotSetUp("This server cannot build indexes.")
    return jobs

"""The feedback API: `POST /api/v1/feedback` takes what became of a search."""

from flask import Blueprint, Response

from rag.insights.store import WHATS
from web.api.parameters import read_object
from web.api.schemas import SEARCH_ID, request_of
from web.fields import FieldError, check, given_fields
from web.insights import required
from web.openapi import define, operation
from web.sizes import MAX_SEARCH_BYTES

_WHAT = {
    "type": "string",
    "enum": list(WHATS),
    "description": "`opened`: a hit was followed; `good`, `bad`, `none`: a judgement of it, or none any more; `seen`: "
    "the hits were looked at, which makes a search with a key for pages count",
}
_HIT = {"type": "string", "minLength": 1, "maxLength": 200, "description": "`id` of the hit; `seen` needs none"}
FEEDBACK = define(
    "Feedback",
    request_of({"search_id": SEARCH_ID, "feedback": _WHAT}, {"hit": _HIT})
    | {
        "anyOf": [
            {"required": ["hit"], "properties": {"hit": {"type": "string"}}},
            {"properties": {"feedback": {"const": "seen"}}},
        ]
    },
)

blueprint = Blueprint("feedback", __name__, url_prefix="/api/v1")


@blueprint.post("/feedback")
@operation(
    summary="Say what became of a search.",
    description="Answers in the same way whether or not there is such a search, and hit of it.",
    role="read",
    request=FEEDBACK,
    responses={204: None},
    errors=(501,),
)
def tell() -> Response:
    """Take it, to be written within a second."""
    recorder = required()
    fields = given_fields(read_object(MAX_SEARCH_BYTES), ("search_id", "feedback", "hit"), "feedback")
    for name in ("search_id", "feedback"):
        if name not in fields:
            raise FieldError(name, f"{name} is missing.")
    id, what = str(check("search_id", fields["search_id"], SEARCH_ID)), check("feedback", fields["feedback"], _WHAT)
    hit = str(check("hit", fields["hit"], _HIT)) if "hit" in fields else ""
    if not hit and what != "seen":
        raise FieldError("hit", "hit is missing: only seen is said of a search as a whole.")
    recorder.add_feedback(id, what, hit)
    return Response(status=204)

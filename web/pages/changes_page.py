"""The changes of documents between two generations or versions, as a page and as JSON."""

from flask import Blueprint, Response, jsonify, render_template, request
from msgspec.structs import replace

from rag.decoding import decode
from rag.messages import Changes, ChangesRequest
from web.api import requests
from web.display_urls import places
from web.openapi import HTML, Operation

_JSON = "application/json"
blueprint = Blueprint("changes", __name__)


@blueprint.get("/changes")
@Operation(
    role="read",
    query=ChangesRequest,
    has_filter=True,
    responses={200: [HTML, Changes]},
    errors=(404, 501),
    takes_long=True,
)
def show_changes() -> str | Response:
    """Show the sections that changed between two snapshots; as JSON with `Accept: application/json`."""
    parameters = requests.parse_query_string(request.query_string)
    fields = requests.fields_beside_filter(parameters, ChangesRequest.__struct_fields__, "changes")
    query = decode({name: value for name, value in fields.items() if value}, ChangesRequest, strict=False)
    display = places(query.collection)
    only = requests.filter_of_parameters(display.index_values(parameters))
    changes = requests.retriever().changes(query.since, query.until, query.collection, only)
    changes = replace(changes, documents=changes.documents[: query.limit])
    if request.accept_mimetypes.best_match([HTML.media_type, _JSON]) == _JSON:
        return jsonify(changes)
    documents = [(document, display.link_to(document.url)) for document in changes.documents]
    return render_template("changes.html", found=changes, documents=documents, link_to=display.link_to)

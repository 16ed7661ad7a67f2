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
    asked = decode({name: value for name, value in fields.items() if value}, ChangesRequest, strict=False)
    named = places(asked.collection)
    wanted = requests.filter_of_parameters(named.index_values(parameters))
    found = requests.retriever().changes(asked.since, asked.until, asked.collection, wanted)
    found = replace(found, documents=found.documents[: asked.limit])
    if request.accept_mimetypes.best_match([HTML.media_type, _JSON]) == _JSON:
        return jsonify(found)
    documents = [(document, named.link_to(document.url)) for document in found.documents]
    return render_template("changes.html", found=found, asked=asked, documents=documents, link_to=named.link_to)

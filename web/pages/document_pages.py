"""Render two pages: the indexed text of a document, and the changes between two builds or versions."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Annotated

from flask import Blueprint, Response, jsonify, render_template, request, url_for
from msgspec import Meta
from msgspec.structs import replace

from rag.decoding import decode
from rag.messages import Changes, ChangesRequest, InCollection
from rag.query.results import as_markdown, is_source_code, section_within
from rag.serving.live import OpenDocument
from web.api.requests import (
    collection_field,
    fields_without_filter,
    filter_of_parameters,
    parse_query_string,
    read_query,
    retriever,
)
from web.display_urls import display_names
from web.openapi import HTML, Content, Operation
from web.pages.snippets import make_text

SHOWN_PASSAGES = 60
PASSAGES_BEFORE = 10  # shown before the requested passage


class ReadRequest(InCollection):
    """The query parameters of the page: which part of a document to show."""

    passage: Annotated[str, Meta(description="`id` of the passage to mark")] = ""
    start: Annotated[int, Meta(ge=0, le=1_000_000, description="passages to skip")] | None = None
    q: Annotated[str, Meta(description="query of the search to go back to")] = ""


MARKDOWN = Content("text/markdown", {"type": "string"})
JSON = "application/json"
changes = Blueprint("changes", __name__)
blueprint = Blueprint("reading", __name__, url_prefix="/document")


@blueprint.get("/<id>")
@Operation(role="read", query=ReadRequest, responses={200: [HTML, MARKDOWN]}, errors=(404,))
def read(id: str) -> str | Response:
    """Show the indexed text of a document, page by page. With `Accept: text/markdown`, return the whole text."""
    read_request = read_query(ReadRequest, "a document")
    opened = retriever().open_document(id, read_request.collection)
    document = opened.facts
    title = document["title"]
    if request.accept_mimetypes.best_match(["text/html", MARKDOWN.media_type]) == MARKDOWN.media_type:
        return Response(_markdown(opened), content_type=f"{MARKDOWN.media_type}; charset=utf-8")
    start = read_request.start or 0
    if read_request.start is None and opened.count > SHOWN_PASSAGES:
        around = retriever().open_around(read_request.passage, read_request.collection)
        if around and around[0].entry == opened.entry:
            start = around[1] - PASSAGES_BEFORE
    start = max(0, min(start, opened.count - 1))
    stop = start + SHOWN_PASSAGES
    passages = opened.passages(start, stop)
    url, names = document["url"], display_names(read_request.collection)
    is_code = is_source_code(document["content_type"])
    fields = {**({"q": read_request.q} if read_request.q else {}), **collection_field(read_request.collection)}

    def from_passage(index: int) -> str:
        return url_for("reading.read", id=id, start=index, **fields)

    return render_template(
        "document.html",
        document=document,
        title=title or names.of(url),
        link=names.link_to(url),
        place=names.of(url),
        sections=[
            (section_within(title, name), [*group]) for name, group in groupby(passages, key=itemgetter("section"))
        ],
        marked=read_request.passage,
        html=lambda passage: make_text(passage["text"], (), passage["blocks"], is_code=is_code),
        before=from_passage(max(0, start - SHOWN_PASSAGES)) if start else None,
        after=from_passage(stop) if stop < opened.count else None,
        back=url_for("page.index", **fields) if read_request.q else None,
    )


def _markdown(opened: OpenDocument) -> Iterator[str]:
    """Yield the Markdown of a document in parts, each with a few passages."""
    title, url = opened.facts["title"], opened.facts["url"]
    yield f"# {title or url}\n\n<{url}>\n"
    before = None
    for batch in opened.batches():
        pieces = []
        for passage in batch:
            heading = section_within(title, passage["section"])
            pieces += [f"\n## {heading}\n"] * bool(heading and passage["section"] != before)
            pieces.append(f"\n{as_markdown(passage['text'], passage['blocks'])}\n")
            before = passage["section"]
        yield "".join(pieces)


@changes.get("/changes")
@Operation(
    role="read",
    query=ChangesRequest,
    has_filter=True,
    responses={200: [HTML, Changes]},
    errors=(404, 501),
    takes_long=True,
)
def show_changes() -> str | Response:
    """Show the sections that differ between two builds or versions. With `Accept: application/json`, return JSON."""
    parameters = parse_query_string(request.query_string)
    fields = fields_without_filter(parameters, ChangesRequest.__struct_fields__, "changes")
    query = decode({name: value for name, value in fields.items() if value}, ChangesRequest, strict=False)
    display = display_names(query.collection)
    filter = filter_of_parameters(display.index_values(parameters))
    differences = retriever().changes(query.since, query.until, query.collection, filter)
    differences = replace(differences, documents=differences.documents[: query.limit])
    if request.accept_mimetypes.best_match([HTML.media_type, JSON]) == JSON:
        return jsonify(differences)
    documents = [(document, display.link_to(document.url)) for document in differences.documents]
    return render_template("changes.html", changes=differences, documents=documents, link_to=display.link_to)

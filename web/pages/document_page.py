"""The page of a document, from the text in the index: for what browsers do not open from a page."""

from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

from flask import Blueprint, Response, render_template, request, url_for
from msgspec import Meta

from rag.messages import InCollection
from rag.query.results import as_markdown, is_source_code, section_within
from rag.serving.live import by_section
from web.api.requests import collection_field, read_query, retriever
from web.display_urls import places
from web.openapi import HTML, Content, Operation
from web.pages.snippets import make_text

SHOWN = 60  # passages of one page
BEFORE = 10  # passages that may stand before the one that is asked for


class ReadRequest(InCollection):
    """A part of a document to show."""

    passage: Annotated[str, Meta(description="`id` of the passage to mark")] = ""
    start: Annotated[int, Meta(ge=0, le=1_000_000, description="passages to skip")] | None = None
    q: Annotated[str, Meta(description="query of the search to go back to")] = ""


MARKDOWN = Content("text/markdown", {"type": "string"})
blueprint = Blueprint("reading", __name__, url_prefix="/document")


@blueprint.get("/<id>")
@Operation(role="read", query=ReadRequest, responses={200: [HTML, MARKDOWN]}, errors=(404,))
def read(id: str) -> str | Response:
    """Show a document as indexed, of a long one a part; all of it as Markdown with `Accept: text/markdown`."""
    given = read_query(ReadRequest, "a document")
    document = retriever().document(id, given.collection)
    title = document["title"]
    if request.accept_mimetypes.best_match(["text/html", MARKDOWN.media_type]) == MARKDOWN.media_type:
        parts = [f"# {title or document['url']}", f"<{document['url']}>"]
        for name, group in by_section(document):
            heading = section_within(title, name)
            parts += [f"## {heading}"] * bool(heading) + [
                as_markdown(passage["text"], passage["blocks"]) for passage in group
            ]
        return Response("\n\n".join(parts) + "\n", content_type=f"{MARKDOWN.media_type}; charset=utf-8")
    passages = [(section_within(title, name), passage) for name, group in by_section(document) for passage in group]
    start = 0
    if given.start is not None:
        start = min(given.start, len(passages) - 1)
    elif len(passages) > SHOWN:
        start = next((at - BEFORE for at, (_, each) in enumerate(passages) if each["id"] == given.passage), 0)
    start = max(0, start)
    stop = start + SHOWN
    url, named = document["url"], places(given.collection)
    is_code = is_source_code(document["content_type"])
    kept: dict[str, Any] = collection_field(given.collection)
    asking: dict[str, Any] = {"q": given.q} if given.q else {}

    def from_passage(place: int) -> str:
        return url_for("reading.read", id=id, start=place, **asking, **kept)

    return render_template(
        "document.html",
        document=document,
        title=title or named.of(url),
        link=named.link_to(url),
        place=named.of(url),
        sections=[
            (heading, [passage for _, passage in group])
            for heading, group in groupby(passages[start:stop], key=itemgetter(0))
        ],
        marked=given.passage,
        html=lambda passage: make_text(passage["text"], (), passage["blocks"], is_code=is_code),
        before=from_passage(max(0, start - SHOWN)) if start else None,
        after=from_passage(stop) if stop < len(passages) else None,
        back=url_for("page.index", **asking, **kept) if asking else None,
    )

"""The page of a document, from the text in the index: for what browsers do not open from a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from flask import Blueprint, Response, abort, render_template, url_for
from msgspec import Meta
from werkzeug.exceptions import ServiceUnavailable

from rag import deadline
from rag.messages import InCollection
from rag.query.results import is_source_code, section_within
from rag.serving.live import by_section
from web.api.requests import collection_field, read_query, retriever, settings
from web.display_urls import link_to, place_of, places
from web.guards.limits import ConcurrencyLimit
from web.openapi import HTML, Content, Operation
from web.pages.snippets import make_text

SHOWN = 60  # passages of one page, about
LONGEST = 40  # passages of a section; the rest of a longer one is shown as another
BEFORE = 10  # passages, at least, that may stand before the section that is asked for
PIECE = 1 << 16  # bytes


class ReadRequest(InCollection):
    """A part of a document to show."""

    passage: Annotated[str, Meta(description="`id` of the passage to mark")] = ""
    section: Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="section to begin with")] = (
        None
    )
    q: Annotated[str, Meta(description="query of the search to go back to")] = ""


@dataclass(frozen=True, slots=True)
class ShownSection:
    """The passages that stand under one heading."""

    number: int  # from 1
    heading: str  # below the title of the document; may be empty
    passages: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The text of a link to the section: its heading, or how it begins."""
        return self.heading or str(self.passages[0]["text"]).strip().partition("\n")[0]


blueprint = Blueprint("reading", __name__, url_prefix="/document")
_slots = ConcurrencyLimit("originals", 4)  # files that one worker sends


@blueprint.get("/<id>")
@Operation(role="read", query=ReadRequest, responses={200: HTML}, errors=(404,))
def read(id: str) -> str:
    """Show a document.

    The text as indexed: around a passage, which is marked, or from a section onwards.
    """
    given = read_query(ReadRequest, "a document")
    document = retriever().document(id, given.collection)
    sections = sections_of(document["title"], by_section(document))
    current = 0
    if given.section is not None:
        current = min(given.section, len(sections)) - 1
    else:
        for place, section in enumerate(sections):
            if any(each["id"] == given.passage for each in section.passages):
                current = place
                break
    shown = window(sections, current, before=BEFORE if given.section is None else 0)
    url, named = document["url"], places(given.collection)
    is_code = is_source_code(document["content_type"])
    kept: dict[str, Any] = collection_field(given.collection)
    asking: dict[str, Any] = {"q": given.q} if given.q else {}

    def near(place: int) -> tuple[str, str] | None:
        """Return the address and heading of a section, where there is one."""
        if not 0 <= place < len(sections):
            return None
        anchor = f"#section-{sections[place].number}"
        if place not in shown:
            anchor = url_for("reading.read", id=id, section=sections[place].number, **asking, **kept) + anchor
        return anchor, sections[place].name

    has_original = settings().originals and url[:5].lower() == "file:"
    return render_template(
        "document.html",
        document=document,
        title=document["title"] or named.of(url),
        link=link_to(url),
        place=named.of(url),
        original=url_for("reading.original", id=id, **kept) if has_original else None,
        file=place_of(url.partition("!/")[0]).rpartition("/")[2],  # the archive or e-mail, where it is within one
        sections=[sections[place] for place in shown],
        marked=given.passage,
        html=lambda text: make_text(text, is_code=is_code),
        previous=near(current - 1),
        next=near(current + 1),
        before=near(shown.start - 1),
        after=near(shown.stop),
        back=url_for("page.index", **asking, **kept) if asking else None,
    )


@blueprint.get("/<id>/original")
@Operation(
    role="read",
    query=InCollection,
    responses={200: Content("application/octet-stream", {"type": "string", "format": "binary"})},
    errors=(404, 501),
)
def original(id: str) -> Response:
    """Download the file that a document was read from.

    Only files of folders, and only if the operator allows it (`originals`). For a file in an archive, sends the
    archive.
    """
    if not settings().originals:
        abort(501, "This server does not offer downloads; its operator can allow them with the setting originals.")
    name, file = retriever().original(id, read_query(InCollection).collection)
    try:
        give_back = _slots.take(ServiceUnavailable("Too many downloads are running: try again shortly."))
    except BaseException:
        file.close()
        raise
    deadline.lift()
    name = "".join(each if each.isprintable() else "_" for each in name)  # a header has no line feed
    response = Response(iter(partial(file.read, PIECE), b""), content_type="application/octet-stream")
    response.headers.set("Content-Disposition", "attachment", filename=name)
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.call_on_close(give_back)
    response.call_on_close(file.close)
    return response


def sections_of(title: str, parts: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[ShownSection]:
    """Return the sections of a document as they are shown; a long one in parts."""
    sections: list[ShownSection] = []
    for name, passages in parts:
        for start in range(0, len(passages), LONGEST):
            part = passages[start : start + LONGEST]
            sections.append(ShownSection(len(sections) + 1, section_within(title, name), part))
    return sections


def window(sections: Sequence[ShownSection], current: int, *, before: int) -> range:
    """Return which sections are shown: all of a short document, else the current one and some around it."""
    if sum(len(one.passages) for one in sections) <= SHOWN:
        return range(len(sections))
    first, room = current, before
    while first > 0 and len(sections[first - 1].passages) <= room:
        first -= 1
        room -= len(sections[first].passages)
    stop, room = current, SHOWN
    while stop < len(sections) and (stop == current or len(sections[stop].passages) <= room):
        room -= len(sections[stop].passages)
        stop += 1
    return range(first, stop)

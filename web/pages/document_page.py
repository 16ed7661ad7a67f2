"""The page of a document, from the text in the index: for what browsers do not open from a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from flask import Blueprint, Response, abort, render_template, url_for
from markupsafe import Markup
from msgspec import Meta
from werkzeug.exceptions import ServiceUnavailable

from rag import deadline
from rag.messages import InCollection
from rag.query.results import is_source_code, section_within
from web.api.requests import collection_field, limits, read_collection, read_query, retriever
from web.display_urls import file_of, is_file, link_to, places
from web.guards.limits import ConcurrencyLimit
from web.openapi import HTML, Content, operation
from web.pages.snippets import make_text

SHOWN = 60  # passages of one page, about
LONGEST = 40  # passages of a section; the rest of a longer one is shown as another
BEFORE = 10  # passages, at least, that may stand before the section that is asked for
MOST_AT_ONCE = 4  # files that one worker sends
PIECE = 1 << 16  # bytes


class ReadRequest(InCollection):
    """A part of a document to show."""

    passage: Annotated[str, Meta(description="`id` of the passage to mark")] = ""
    section: Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="section to begin with")] = (
        None
    )
    q: Annotated[str, Meta(description="query of the search to go back to")] = ""


blueprint = Blueprint("reading", __name__, url_prefix="/document")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)


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

    def pieces(self, marked: str, *, is_code: bool) -> list[tuple[Markup, bool]]:
        """Return the passages as HTML, and whether each is the marked one."""
        return [(make_text(passage["text"], is_code=is_code), passage["id"] == marked) for passage in self.passages]


@blueprint.get("/<id>")
@operation(
    summary="Show a document",
    role="read",
    description="The text as indexed: around a passage, which is marked, or from a section onwards.",
    query=ReadRequest,
    responses={200: HTML},
    errors=(404,),
)
def read(id: str) -> str:
    """Show a document around a passage or from a section on."""
    given = read_query(ReadRequest, "a document")
    collection, marked = given.collection, given.passage
    document, parts = retriever().sections(id, collection, whole=marked)
    sections = sections_of(document["title"], parts)
    is_code = is_source_code(document["content_type"])
    current = _current(sections, marked, given.section)
    shown = window(sections, current, before=BEFORE if given.section is None else 0)
    named = places(collection)
    kept: dict[str, Any] = collection_field(collection)
    asking: dict[str, Any] = {"q": given.q} if given.q else {}

    def near(place: int) -> tuple[str, str] | None:
        """Return the address and heading of a section, where there is one."""
        if not 0 <= place < len(sections):
            return None
        anchor = f"#section-{sections[place].number}"
        if place not in shown:
            anchor = url_for("reading.read", id=id, section=sections[place].number, **asking, **kept) + anchor
        return anchor, sections[place].name

    return render_template(
        "document.html",
        document=document,
        title=document["title"] or named.of(document["url"]),
        link=link_to(document["url"]),
        place=named.of(document["url"]),
        original=url_for("reading.original", id=id, **kept) if has_original(document["url"]) else None,
        file=file_of(document["url"]),
        sections=[(sections[place], sections[place].pieces(marked, is_code=is_code)) for place in shown],
        previous=near(current - 1),
        next=near(current + 1),
        before=near(shown.start - 1),
        after=near(shown.stop),
        back=url_for("page.index", **asking, **kept) if asking else None,
    )


@blueprint.get("/<id>/original")
@operation(
    summary="Download the file that a document was read from",
    role="read",
    description="Only files of folders, and only if the operator allows it (`originals`). For a file in an archive, "
    "sends the archive.",
    query=InCollection,
    responses={200: Content("application/octet-stream", {"type": "string", "format": "binary"})},
    errors=(404, 501),
)
def original(id: str) -> Response:
    """Send a file to be saved: a browser never shows it here, where its scripts would be ours."""
    if not limits().originals:
        abort(501, "This server does not offer downloads; its operator can allow them with the setting originals.")
    name, file = retriever().original(id, read_collection())
    try:
        full = ServiceUnavailable("Too many downloads are running: try again shortly.")
        give_back = _slots.take(full)
    except BaseException:
        file.close()
        raise
    deadline.lift()
    response = Response(iter(partial(file.read, PIECE), b""), content_type="application/octet-stream")
    response.headers.set("Content-Disposition", "attachment", filename=name)
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.call_on_close(give_back)
    response.call_on_close(file.close)
    return response


def has_original(url: str) -> bool:
    """Return whether the file of a document may be downloaded."""
    return limits().originals and is_file(url)


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


def _current(sections: Sequence[ShownSection], marked: str, asked: int | None) -> int:
    """Place of the section that is asked for, or that has the marked passage; the first where there is none."""
    if asked is not None:
        return min(asked, len(sections)) - 1
    places = (place for place, one in enumerate(sections) if any(each["id"] == marked for each in one.passages))
    return next(places, 0)

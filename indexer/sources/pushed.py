"""Documents that were sent, as a source of the index they were sent to."""

from collections.abc import Callable, Generator
from dataclasses import replace

from indexer.generation.previous import PreviousGeneration
from indexer.read.container import expand
from indexer.read.formats import MAIL, OCR_OFF, reader_of
from indexer.records import Item, Known, Page
from indexer.sources.pushed_store import SOURCE, PushedReader


def read_pushed(
    documents: PushedReader,
    max_bytes: int,
    found: Callable[[int], None],
    earlier: PreviousGeneration,
    no_images: str = OCR_OFF,
) -> Generator[Item, None, None]:
    """Give every document that was sent and not withdrawn, in the order of their addresses.

    What an index has that came from elsewhere, such as an archive, is given as it was found there: nobody here knows
    more of it.

    Args:
        documents: what was sent.
        max_bytes: longest attachment of an e-mail that is read.
        found: told how many documents there are.
        earlier: what an earlier build knows; of what is unchanged since then, its record is given.
        no_images: why images are not read, if they are not.
    """
    found(documents.count)
    for url, content_hash, content_type in documents.listed():
        record = earlier.unchanging_page(url)
        if record is not None and record.content_hash == content_hash:
            below = earlier.pages(f"{url}!/") if reader_of(content_type) == MAIL else ()
            yield from (Known(replace(each, source=SOURCE)) for each in (record, *below))
            continue
        page = documents.page(url)
        if page is not None:  # else it has been withdrawn meanwhile
            yield page
            if reader_of(page.content_type) == MAIL:
                for item in expand(page, max_bytes, no_images):
                    if isinstance(item, Page):  # which has a title of its own
                        item = replace(item, stated=page.stated._replace(title=""), content_hash="")
                    yield item
    if earlier.manifest is not None and SOURCE in earlier.manifest.sources:
        for record in earlier.pages():
            if record.source == SOURCE and not documents.was_told(record.url.partition("!/")[0]):
                yield Known(record)

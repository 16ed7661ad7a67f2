from indexer.pipeline.ray.serialisation import pack, pack_page, pack_parsed, unpack, unpack_page, unpack_parsed
from indexer.records import Chunk, Document, Page, Parsed
from tests.indexer.conftest import make_page

ODD = 'half a pair \ud83d, "quotes", \x00, é, 日本'


def test_a_page_arrives_as_it_was() -> None:
    page: Page = make_page(b"\x00\xff", url=f"http://t.test/{ODD}", links=("a", "b"), noindex=True, language="en")
    assert unpack_page(pack_page(page), page.body) == page


def test_a_document_arrives_with_its_chunks() -> None:
    chunk = Chunk("id", "u#a", "u", ODD, "a › b", ODD, f"{ODD}\n\n{ODD}", "hash", 7, 0)
    document = Document("u", "s", ODD, (), "hash", None, "date", "now", "text/plain", None, None, {"tag": ("a", ODD)})
    parsed = Parsed(document, [chunk, chunk], {"parse": 0.25})
    assert unpack_parsed(pack_parsed(parsed)) == parsed


def test_texts_arrive_in_their_order() -> None:
    assert unpack(pack([ODD, "", "b"])) == [ODD, "", "b"]

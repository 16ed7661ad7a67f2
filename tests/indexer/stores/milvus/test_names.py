"""Addresses of Milvus, and words in the form in which it gets them; nothing here needs a server."""

import pytest

from indexer.errors import StoreAddressError
from indexer.generation.lexical.lexical_query import read_query
from indexer.stores.milvus.address import MilvusAddress
from indexer.stores.milvus.milvus_query import MilvusQuery, words_of
from indexer.stores.milvus.milvus_store import MilvusStore

ID = "20260101T000000-000000"
TOKEN = "root:a-secret"


@pytest.mark.parametrize(
    ("text", "uri", "name", "database"),
    [
        ("milvus://host/docs", "http://host:19530", "docs", ""),
        ("milvuss://host:443/docs?database=x", "https://host:443", "docs", "x"),
        ("milvus://[::1]:1/_d", "http://[::1]:1", "_d", ""),
        ("milvus+lite:///a/b c/m.db/docs", "/a/b c/m.db", "docs", ""),
    ],
)
def test_addresses(text, uri, name, database):
    address = MilvusAddress.parse(text)
    assert (address.uri, address.name, address.database, str(address)) == (uri, name, database, text)
    assert address.generation_of(address.collection(ID)) == ID


@pytest.mark.parametrize(
    "text",
    [
        "milvus://host",
        "milvus://host/1docs",
        "milvus://host/a/b",
        "milvus://host:port/docs",
        "milvus:///docs",
        "milvus://host/docs?index=x",
        "milvus+lite:///a/docs",
        "milvus+lite://host/m.db/docs",
        "s3://bucket/docs",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(StoreAddressError, match=r"milvus://HOST:19530/NAME"):
        MilvusStore.at(text)


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(StoreAddressError, match="PILOTLIGHT_MILVUS_TOKEN") as caught:
        MilvusStore.at(f"milvus://{TOKEN}@host/docs")
    assert "a-secret" not in str(caught.value)


def test_words_are_tokens_for_any_tokenizer():
    text = "Straße max_connections हिन्दी 東京都 0x41 C++ naïve"
    words = words_of("Title", "Title › Section", text)
    assert set(words) <= set("abcdefghijklmnopqrstuvwxyz0123456789 ")
    for query in ("strasse", "MAX_CONNECTIONS", "हिन्दी", "東京", "0x41", '"naive"', "titles", '"हिन्दी 東京都"'):
        wanted = MilvusQuery.of(read_query(query))
        assert set(wanted.text.split()) <= set(words.split())
        assert wanted.matches(words)
    assert not MilvusQuery.of(read_query('"हिन्दी max_connections"')).matches(words)
    long = words_of("", "", "東" * 20_000)
    assert len(long) <= 65_535
    assert set(long.split()) == set(words_of("", "", "東東").split())

"""What every caller finds on a server, compared with the model of its index."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from flask.testing import FlaskClient

from tests.properties.library import CALLERS, SHARED, Contents, Entry


class ServerChecks:
    """Asks a server in all ways, as each caller."""

    client: FlaskClient
    keys: dict[str, dict[str, str]]  # headers, by caller
    live: dict[str, Contents]  # what each collection should have
    dice: random.Random

    def visible(self, caller: str, name: str) -> dict[str, Entry] | None:
        """Return the documents of a collection that a caller sees; None where the collection is not there for it."""
        who = CALLERS[caller]
        if who.collections is not None and name not in who.collections:
            return None
        return {url: entry for url, entry in self.live[name].documents.items() if who.sees(entry)}

    def check_documents(self, caller: str, name: str) -> None:
        visible = self.visible(caller, name)
        where: dict[str, Any] = {"query_string": {"collection": name}, "headers": self.keys[caller], "buffered": True}
        listed = self.client.get("/api/v1/documents", **where)
        if visible is None:
            assert listed.status_code == 404
            return
        assert listed.status_code == 200, listed.text
        documents = [json.loads(line) for line in listed.text.splitlines()]
        assert {document["url"] for document in documents} == {*visible}
        for document in documents:
            entry = visible[document["url"]]
            assert entry.text
            assert entry.text.marker in document["passages"][0]["text"]
            assert (document["title"], document["language"]) == (entry.text.title, entry.text.language)
            assert (document["source"], document["date"]) == (entry.source, entry.text.date)

    def check_searches(self, caller: str, name: str) -> None:
        headers, visible, documents = self.keys[caller], self.visible(caller, name), self.live[name].documents
        if visible is None or not documents:
            return
        query = " ".join(self.dice.sample(SHARED, 3))
        self.check_search(headers, {"query": query, "collection": name}, visible)
        self.check_search(headers, {"query": query, "mode": "lexical", "collection": name}, visible, is_whole=False)
        entry = documents[self.dice.choice(sorted(documents))]
        text = entry.text
        assert text
        twins = {url for url, each in visible.items() if each.text and each.text.marker == text.marker}
        assert self.search(headers, {"query": text.marker, "mode": "lexical", "collection": name}) >= twins
        only, holds = self.dice.choice([*_filters(entry)])
        allowed = {url: each for url, each in visible.items() if holds(each)}
        self.check_search(headers, {"query": query, "collection": name, "filter": only}, allowed)
        found = self.call(headers, "grep", pattern=text.marker, collections=[name])
        assert found.startswith(f"{len(twins)} passage"), (found, twins)
        read = self.call(headers, "read", address=entry.url)
        is_anywhere = any(entry.url in (self.visible(caller, each) or {}) for each in self.live)
        assert is_anywhere == ("there is no document" not in read)
        assert is_anywhere or text.marker not in read
        typed = {"q": f"about {text.marker[:8]}", "collection": name}
        suggested = self.client.get("/api/v1/suggest", query_string=typed, headers=headers).get_json()["suggestions"]
        assert (text.title in {each["text"] for each in suggested}) == bool(twins)

    def check_joint(self, caller: str) -> None:
        everywhere = {name: found for name in self.live if (found := self.visible(caller, name)) is not None}
        if everywhere:
            urls = {url for found in everywhere.values() for url in found}
            found = self.search(self.keys[caller], {"query": " ".join(SHARED[:3]), "collections": "*"})
            assert found == urls

    def check_search(
        self, headers: dict[str, str], body: dict[str, Any], allowed: dict[str, Entry], *, is_whole: bool = True
    ) -> None:
        found = self.search(headers, body)
        assert found <= {*allowed}
        if is_whole and len({each.text for each in allowed.values()}) == len(allowed):
            assert found == {*allowed}

    def search(self, headers: dict[str, str], body: dict[str, Any]) -> set[str]:
        """Return the addresses of all documents that a search tells of."""
        answer = self.client.post("/api/v1/search", json={"k": 100, "per_document": 0, **body}, headers=headers)
        assert answer.status_code == 200, answer.text
        hits = answer.get_json()["hits"]
        urls = [url for hit in hits for url in (hit["url"], *hit["duplicates"], *(each["url"] for each in hit["also"]))]
        return {url.partition("#")[0] for url in urls}

    def call(self, headers: dict[str, str], tool: str, **arguments: Any) -> str:
        """Call a tool over MCP; return its text."""
        message = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}
        }  # fmt: skip
        answer = self.client.post("/mcp", json=message, headers=headers | {"Accept": "application/json"})
        return str(answer.get_json()["result"]["content"][0]["text"])


def _filters(entry: Entry) -> Iterator[tuple[dict[str, Any], Callable[[Entry], bool]]]:
    """Yield filters of every kind that allow a document, and whether they allow others."""
    text = entry.text
    assert text
    yield {"language": [text.language]}, lambda each: each.text.language == text.language
    yield {"source": entry.source}, lambda each: each.source == entry.source
    yield {"content_type": entry.content_type}, lambda each: each.content_type == entry.content_type
    folder = entry.url.rpartition("/")[0]
    yield {"url_prefix": folder}, lambda each: each.url.startswith(f"{folder}/")
    path = folder.partition("://")[2]
    path = path[path.find("/") :] if "/" in path else "/"
    yield {"path": path}, lambda each: each.url.partition("://")[2].partition("/")[2].startswith(path[1:])
    yield {"date": {"from": text.date}}, lambda each: each.text.date >= text.date
    if text.team:
        yield {"metadata": {"team": text.team}}, lambda each: each.text.team == text.team

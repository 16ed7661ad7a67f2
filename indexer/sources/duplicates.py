"""Pages that a build has already: each address and each content is indexed once."""

from collections.abc import Collection

from indexer.records import Item, Known, Page, Skip


class Duplicates:
    """Tells the first of some pages from the others, over all sources."""

    def __init__(self, rested: Collection[str] = ()) -> None:
        """Start with the addresses that are indexed without being read."""
        self._rested = rested
        self._urls: set[str] = set()
        self._contents: set[str] = set()

    def left_out(self, item: Item) -> Item:
        """Return the item, or if it is a duplicate a skip in its place."""
        reason = ""
        if isinstance(item, Page | Known):
            if item.url in self._urls:
                reason = "already read"
            elif item.content_hash in self._contents:
                reason = "same content as another page"
            else:
                self._urls.add(item.url)
                self._contents.add(item.content_hash)
        if item.url in self._rested:
            reason = "already read"
        return Skip(item.url, reason) if reason else item

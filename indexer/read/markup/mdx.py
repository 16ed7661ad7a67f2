"""MDX: Markdown with components, imports and expressions."""

from indexer.read.markup import markdown
from indexer.records import Extraction


def read(body: bytes, charset: str | None) -> Extraction:
    """Read the text of an MDX file, and the words in its components that a reader sees."""
    return markdown.read(body, charset, is_mdx=True)

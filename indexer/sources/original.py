"""The file that a document of a folder was read from, opened in the way in which folders are read."""

import os
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from indexer.errors import SourceError
from indexer.read.allowed_places import folder_above
from indexer.sources.folders.folder_tree import Tree

INSIDE = "!/"  # between the address of an archive or an e-mail and the name of what is in it


def open_original(url: str, source: str, within: Sequence[str] = ()) -> tuple[str, BinaryIO]:
    """Open the file of a document; of what is in an archive or comes with an e-mail, that one.

    Args:
        url: address of the document.
        source: file or folder that it was read from; nothing outside is opened, and no link below is followed.
        within: folders that the source may not leave; none means that it may be anywhere.

    Returns:
        Name of the file, and the file at its beginning.

    Raises:
        SourceError: it was not read from a folder, or is not there any more.
    """
    parts = urlsplit(url.partition(INSIDE)[0])
    if parts.scheme != "file" or parts.netloc or "://" in source:
        raise SourceError(f"{url[:200]} is not a file of a folder")
    path = Path(os.fsdecode(unquote_to_bytes(parts.path)))
    gone = SourceError(f"{path.name[:200]} is not where it was when it was indexed")
    try:
        root = Path(source).expanduser().resolve(strict=True)
        folder = root if root.is_dir() else root.parent
        top = folder_above(root, within) if within else folder
        inside = path == root or (folder == root and path.is_relative_to(root))
        if top is None or not inside or ".." in path.parts:
            raise gone
        with closing(Tree(folder, top if top != root else folder)) as tree:
            handle = tree.open(path)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise gone
    except (OSError, RuntimeError, ValueError) as error:
        raise gone from error
    return path.name, os.fdopen(handle, "rb")

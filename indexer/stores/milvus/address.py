"""Addresses of generations in Milvus.

milvus://HOST:PORT/NAME              a server or cluster; ?database=NAME for one of its databases
milvuss://HOST:PORT/NAME             the same over TLS
milvus+lite:///FOLDER/FILE.db/NAME   Milvus Lite: a file on this machine, open in one process at a time

NAME is the alias that names the live generation; each generation has collections of its own, see `collection`.
"""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

from indexer.errors import StoreAddressError
from indexer.generation.manifest import is_generation_id

SCHEMES = ("milvus", "milvuss", "milvus+lite")
_PORT = 19530
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FORMS = "use milvus://HOST:19530/NAME, milvuss://HOST:PORT/NAME or milvus+lite:///FOLDER/FILE.db/NAME"


@dataclass(frozen=True, slots=True)
class MilvusAddress:
    """The address of a store; `str` of it is fit for messages, since it never holds a secret."""

    uri: str  # as the client takes it
    name: str
    database: str
    shown: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address; raises StoreAddressError saying what is wrong with it."""
        try:
            parts = urlsplit(text)
            port = parts.port or _PORT
        except ValueError as error:
            raise StoreAddressError(f"this is not the address of a store ({error}); {_FORMS}") from error
        if parts.username is not None or parts.password is not None:
            raise StoreAddressError(
                f"the address of the store at {parts.hostname} holds credentials, which would end up in logs: "
                "leave them out, and set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token"
            )
        options = parse_qs(parts.query)
        database = options.pop("database", [""])[-1]
        folder, _, name = parts.path.rpartition("/")
        if parts.scheme not in SCHEMES or parts.fragment or options or not _NAME.fullmatch(name):
            raise StoreAddressError(
                f"{text} names no store: {_FORMS}, where NAME is of letters, digits and _, and begins with no digit"
            )
        is_lite = parts.scheme == "milvus+lite"
        if is_lite and (parts.netloc or not folder.endswith(".db")):
            raise StoreAddressError(f"{text} names no file of Milvus Lite: {_FORMS}")
        if not is_lite and (not parts.hostname or folder):
            raise StoreAddressError(f"{text} names no server and collection: {_FORMS}")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        uri = folder if is_lite else f"{'https' if parts.scheme == 'milvuss' else 'http'}://{host}:{port}"
        return cls(uri, name, database, text)

    def __str__(self) -> str:
        return self.shown

    @property
    def is_lite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.uri.startswith("/")

    def collection(self, generation_id: str) -> str:
        """Return the collection with the passages of a generation; `records_of` names the one with its records."""
        return f"{self.name}_{generation_id.replace('-', '_')}"

    def generation_of(self, collection: str) -> str | None:
        """Return the id of the generation whose passages a collection has, or None if it is another collection."""
        day, mark, random = collection.removeprefix(f"{self.name}_").partition("_")
        id = f"{day}-{random}"
        return id if mark and is_generation_id(id) and self.collection(id) == collection else None


def records_of(collection: str) -> str:
    """Return the collection with what a generation has besides passages."""
    return f"{collection}_records"

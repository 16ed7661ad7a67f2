"""The work that nodes of a cluster do for a build, in processes of Ray; see `indexer.pipeline.ray.driver`."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

from embedder.errors import EmbedderError
from embedder.late_interaction import DocumentTokens
from embedder.protocol import Embedder, encode_documents
from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.errors import NodeDiffers
from indexer.generation.previous import READER_VERSION
from indexer.pipeline.ray.serialisation import pack_parsed, unpack, unpack_page
from indexer.read.ocr.installation import Ocr, find
from indexer.read.parsing import parse
from indexer.records import Parsed

_loaded: dict[str, Embedder] = {}  # what this process keeps from task to task: one embedder, by the id of its work


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a node, with all that it needs to know."""

    id: str  # no other has it
    load: Callable[[], Embedder]  # gives its embedder, fit for its own processor
    fingerprint: dict[str, Any]  # that the embedder has to have
    software: dict[str, str]  # that the node has to have, see `software`


def software() -> dict[str, str]:
    """Return what decides, beside the model, whether two machines make the same chunks and vectors of a page."""
    python = ".".join(platform.python_version_tuple()[:2])
    packages = {name: _version(name) for name in ("pilotlight", "torch")}
    return {"python": python, "reading": str(READER_VERSION)} | packages


def check(work: Work) -> None:
    """Load the embedder, and compile it where this machine has not done so yet; raises NodeDiffers."""
    _embedder(work)


def read(fields: bytes, body: bytes, chunk: ChunkConfig, ocr: Ocr, work: Work) -> bytes:
    """Read and cut a page: what `pack_page` made of it, to what `pack_parsed` makes.

    Raises ParseError, NodeDiffers, or ConfigError where this machine has no OCR and the one that builds does.
    """
    embedder = _embedder(work)
    page = unpack_page(fields, body)
    began = time.perf_counter()
    here = ocr if ocr.obstacle else find(replace(ocr.config, mode="on"))  # its folders may be other ones
    document = parse(page, ocr=here)
    read_at = time.perf_counter()
    chunks = Chunker(embedder, chunk).split(document)
    seconds = {"parse": read_at - began, "chunk": time.perf_counter() - read_at}
    return pack_parsed(Parsed(document, chunks, seconds))


def encode(texts: bytes, work: Work, tokens: bool) -> tuple[DocumentTokens, float]:
    """Vectors of texts that are packed, with their tokens if those are wanted, and how many seconds they took.

    Raises NodeDiffers, or EmbedderError where the model gives no numbers.
    """
    embedder = _embedder(work)
    began = time.perf_counter()
    return encode_documents(embedder, unpack(texts), tokens=tokens), time.perf_counter() - began


def _embedder(work: Work) -> Embedder:
    if work.id not in _loaded:
        where = f"the node {_name()}"
        _compare(where, software(), work.software)
        try:
            embedder = work.load()
        except EmbedderError as error:
            raise NodeDiffers(f"{where} cannot embed: {error}") from error
        _compare(where, embedder.fingerprint, work.fingerprint)
        _loaded.clear()
        _loaded[work.id] = embedder
    return _loaded[work.id]


def _compare(where: str, has: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in expected.keys() | has.keys():
        if has.get(name) != expected.get(name):
            raise NodeDiffers(
                f"{where} has {name} {has.get(name)}, and this machine {expected.get(name)}: make them alike, or take "
                "it out of the cluster; nothing was published"
            )


def _name() -> str:
    import ray

    return f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"

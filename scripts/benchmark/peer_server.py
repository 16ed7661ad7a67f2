"""Index and serve texts with other search libraries, which are configured as their documentation says.

`python peer_server.py NAME MODEL FOLDER` indexes FOLDER/texts.json, a list of texts, and prints the time in seconds.
Then gunicorn runs `application`, which serves /search?q=…&k=…, with the same arguments in the environment variables
PEER, PEER_MODEL and PEER_FOLDER. txtai has its own server, which reads FOLDER/txtai.yml. Each library is in a separate
virtual environment without Pilotlight. A library's class builds an index, opens it, and searches in it.
"""

# ruff: noqa: D102

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request


class Script:
    """SentenceTransformer and FAISS in a few lines of code. Dense search only."""

    def __init__(self, model: str, folder: Path) -> None:
        from sentence_transformers import SentenceTransformer

        self.model, self.file = SentenceTransformer(model, device="cpu"), str(folder / "vectors.faiss")

    def build(self, texts: list[str]) -> None:
        import faiss

        vectors = self.model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        faiss.write_index(index, self.file)

    def open(self, texts: list[str]) -> None:
        import faiss

        self.index = faiss.read_index(self.file)

    def search(self, query: str, k: int) -> list[int]:
        vector = self.model.encode([query], normalize_embeddings=True, show_progress_bar=False)
        return [int(row) for row in self.index.search(vector, k)[1][0]]


class Chroma:
    """A persistent collection of Chroma. Dense search only."""

    def __init__(self, model: str, folder: Path) -> None:
        import chromadb
        from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

        self.client = chromadb.PersistentClient(path=str(folder / "chroma"))
        self.embed: Any = SentenceTransformerEmbeddingFunction(model_name=model, normalize_embeddings=True)

    def build(self, texts: list[str]) -> None:
        collection = self.client.create_collection("texts", embedding_function=self.embed)
        step = self.client.get_max_batch_size()
        for start in range(0, len(texts), step):
            batch = texts[start : start + step]
            collection.add(ids=[str(start + i) for i in range(len(batch))], documents=batch)

    def open(self, texts: list[str]) -> None:
        self.collection = self.client.get_collection("texts", embedding_function=self.embed)

    def search(self, query: str, k: int) -> list[int]:
        return [int(name) for name in self.collection.query(query_texts=[query], n_results=k)["ids"][0]]


class LanceDB:
    """A table of LanceDB with an embedding function and a full-text index. Hybrid search."""

    def __init__(self, model: str, folder: Path) -> None:
        import lancedb
        from lancedb.embeddings import get_registry

        self.database = lancedb.connect(folder / "lancedb")
        self.embed = get_registry().get("sentence-transformers").create(name=model, device="cpu")

    def build(self, texts: list[str]) -> None:
        from lancedb.index import FTS
        from lancedb.pydantic import LanceModel, Vector

        embed = self.embed

        class Text(LanceModel):  # type: ignore[misc]
            row: int
            text: str = embed.SourceField()
            vector: Vector(embed.ndims()) = embed.VectorField()  # type: ignore[valid-type]

        table = self.database.create_table("texts", schema=Text)
        table.add([{"row": row, "text": text} for row, text in enumerate(texts)])
        table.create_index("text", config=FTS())

    def open(self, texts: list[str]) -> None:
        self.table = self.database.open_table("texts")

    def search(self, query: str, k: int) -> list[int]:
        return [hit["row"] for hit in self.table.search(query, query_type="hybrid").limit(k).to_list()]


class LangChainEnsemble:
    """LangChain's EnsembleRetriever with BM25 and FAISS. Hybrid search."""

    def __init__(self, model: str, folder: Path) -> None:
        from langchain_huggingface import HuggingFaceEmbeddings

        self.embed = HuggingFaceEmbeddings(model_name=model, encode_kwargs={"normalize_embeddings": True})
        self.folder = str(folder / "langchain")

    def build(self, texts: list[str]) -> None:
        from langchain_community.vectorstores import FAISS

        FAISS.from_texts(texts, self.embed, [{"row": row} for row in range(len(texts))]).save_local(self.folder)

    def open(self, texts: list[str]) -> None:
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
        from langchain_community.vectorstores import FAISS

        store = FAISS.load_local(self.folder, self.embed, allow_dangerous_deserialization=True)  # written by `build`
        words = BM25Retriever.from_texts(texts, [{"row": row} for row in range(len(texts))], k=10)
        retrievers = [words, store.as_retriever(search_kwargs={"k": 10})]
        self.retriever = EnsembleRetriever(retrievers=retrievers, weights=[0.5, 0.5])

    def search(self, query: str, k: int) -> list[int]:
        return [hit.metadata["row"] for hit in self.retriever.invoke(query)[:k]]


class Haystack:
    """A Haystack pipeline with an in-memory store. Hybrid search, joined by reciprocal ranks."""

    def __init__(self, model: str, folder: Path) -> None:
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        self.model, self.file = model, str(folder / "haystack.json")
        self.store = InMemoryDocumentStore(embedding_similarity_function="cosine")

    def build(self, texts: list[str]) -> None:
        from haystack import Document
        from haystack_integrations.components.embedders import sentence_transformers as embedders

        embedder = embedders.SentenceTransformersDocumentEmbedder(model=self.model, progress_bar=False)
        embedder.warm_up()
        documents = [Document(id=str(row), content=text) for row, text in enumerate(texts)]
        self.store.write_documents(embedder.run(documents)["documents"])
        self.store.save_to_disk(self.file)

    def open(self, texts: list[str]) -> None:
        from haystack import Pipeline
        from haystack.components.joiners import DocumentJoiner
        from haystack.components.retrievers import in_memory
        from haystack.document_stores.in_memory import InMemoryDocumentStore
        from haystack_integrations.components.embedders import sentence_transformers as embedders

        self.store = InMemoryDocumentStore.load_from_disk(self.file)
        self.pipeline = Pipeline()
        for name, component in (
            ("embedder", embedders.SentenceTransformersTextEmbedder(model=self.model, progress_bar=False)),
            ("meaning", in_memory.InMemoryEmbeddingRetriever(self.store)),
            ("words", in_memory.InMemoryBM25Retriever(self.store)),
            ("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion")),
        ):
            self.pipeline.add_component(name, component)
        self.pipeline.connect("embedder.embedding", "meaning.query_embedding")
        self.pipeline.connect("meaning", "joiner")
        self.pipeline.connect("words", "joiner")

    def search(self, query: str, k: int) -> list[int]:
        hits = self.pipeline.run({"embedder": {"text": query}, "words": {"query": query}})["joiner"]["documents"]
        return [int(hit.id) for hit in hits[:k]]


class Txtai:
    """An embeddings database of txtai, which txtai's own server serves. Hybrid search."""

    def __init__(self, model: str, folder: Path) -> None:
        from txtai import Embeddings

        self.path = str(folder / "txtai")
        self.embeddings = Embeddings(path=model, hybrid=True)
        config = {"path": self.path, "writable": False, "embeddings": {"path": model, "hybrid": True}}
        (folder / "txtai.yml").write_text(json.dumps(config), encoding="utf-8")

    def build(self, texts: list[str]) -> None:
        self.embeddings.index(texts)
        self.embeddings.save(self.path)


PEERS: dict[str, Any] = {
    "script": Script,
    "chroma": Chroma,
    "lancedb": LanceDB,
    "langchain": LangChainEnsemble,
    "haystack": Haystack,
    "txtai": Txtai,
}


def main(name: str, model: str, folder: Path) -> None:
    """Index the texts in FOLDER/texts.json, and print the time in seconds."""
    peer, texts = PEERS[name](model, folder), json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    start = time.perf_counter()
    peer.build(texts)
    print(time.perf_counter() - start)


def application() -> Flask:
    """Create the Flask application that serves the index of a library."""
    folder = Path(os.environ["PEER_FOLDER"])
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    peer = PEERS[os.environ["PEER"]](os.environ["PEER_MODEL"], folder)
    peer.open(texts)
    app = Flask(__name__)

    @app.route("/search")
    def search() -> Response:
        rows = peer.search(request.args["q"], int(request.args.get("k", 10)))
        return jsonify([{"id": row, "text": texts[row]} for row in rows])

    @app.route("/readyz")
    def readyz() -> Response:
        return jsonify(ready=True)

    return app


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

"""Serves an index at an address with the dummy embedder, as a process, with settings from the environment."""

from flask import Flask

from rag.serving.replica_retriever import ReplicaRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from web.app import create_app
from web.server.__main__ import serve


def application() -> Flask:
    settings = load()
    retriever = ReplicaRetriever(settings, lambda _: DummyEmbedder())
    retriever.start()
    return create_app(retriever, settings)


if __name__ == "__main__":
    serve(application, load())

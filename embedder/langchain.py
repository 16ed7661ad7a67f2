"""Provide the embedder as a LangChain class. LangChain is imported only here, because importing it is slow."""

from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder.text_embedder import Embedder


class Embeddings(Embedder, LangChainEmbeddings):
    """A sentence-transformers model for LangChain's vector stores and chains, with asynchronous methods."""

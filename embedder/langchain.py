"""`Embeddings`: the embedder with LangChain's interface. Importing LangChain takes longer than loading a model."""

from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder.text_embedder import Embedder


class Embeddings(Embedder, LangChainEmbeddings):
    """A sentence-transformers model for LangChain's vector stores and chains, with asynchronous methods."""

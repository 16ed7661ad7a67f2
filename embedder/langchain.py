"""`Embeddings`: the embedding class behind LangChain's interface.

It stands alone, as importing LangChain takes longer than loading a model and opening an index.
"""

from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder.text_embedder import Embedder


class Embeddings(Embedder, LangChainEmbeddings):
    """A sentence-transformers model as LangChain's vector stores and chains take one, with its asynchronous methods."""

"""The baseline: retrieval on a CPU with LangChain and FAISS, as LangChain's documentation shows it.

As a program, it loads the model and the saved index, answers one query, and prints the best passage.
Usage: langchain_script.py MODEL_FOLDER INDEX_FOLDER QUERY
"""

import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", message=".*langchain-community.*")
warnings.filterwarnings("ignore", message=".*was deprecated in LangChain.*")


def embeddings(model: Path) -> Any:
    """Return LangChain's embeddings of a model, normalised as its model card says."""
    from langchain_community.embeddings import HuggingFaceEmbeddings

    return HuggingFaceEmbeddings(model_name=str(model), encode_kwargs={"normalize_embeddings": True})


def save(texts: list[str], vectors: list[list[float]], embedding: Any, folder: Path) -> None:
    """Save embedded texts as a FAISS store."""
    from langchain_community.vectorstores import FAISS

    FAISS.from_embeddings(list(zip(texts, vectors, strict=True)), embedding).save_local(str(folder))


def main(model: str, index: str, query: str) -> None:
    """Answer one query from a saved store."""
    from langchain_community.vectorstores import FAISS

    # the pickle is safe: the benchmark has just written it
    store = FAISS.load_local(index, embeddings(Path(model)), allow_dangerous_deserialization=True)
    print(store.similarity_search(query, k=1)[0].page_content)


if __name__ == "__main__":
    main(*sys.argv[1:])

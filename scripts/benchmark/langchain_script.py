"""Answer queries with LangChain and FAISS as LangChain's documentation shows it, for comparison with Pilotlight.

The program loads the model and a saved index, and prints the best passage for one query.
Usage: langchain_script.py MODEL_FOLDER INDEX_FOLDER QUERY
"""

import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", message=".*langchain-community.*")
warnings.filterwarnings("ignore", message=".*was deprecated in LangChain.*")


def embeddings(model: Path) -> Any:
    """Return a LangChain object that embeds texts with a model. Vectors are normalised, as the model card says."""
    from langchain_community.embeddings import HuggingFaceEmbeddings

    return HuggingFaceEmbeddings(model_name=str(model), encode_kwargs={"normalize_embeddings": True})


def save(texts: list[str], vectors: list[list[float]], embedding: Any, folder: Path) -> None:
    """Save texts and their vectors as a FAISS store."""
    from langchain_community.vectorstores import FAISS

    FAISS.from_embeddings(list(zip(texts, vectors, strict=True)), embedding).save_local(str(folder))


def main(model: str, index: str, query: str) -> None:
    """Print the passage of a saved FAISS store that is nearest to a query."""
    from langchain_community.vectorstores import FAISS

    # Loading the pickle is safe, because the benchmark has written it.
    store = FAISS.load_local(index, embeddings(Path(model)), allow_dangerous_deserialization=True)
    print(store.similarity_search(query, k=1)[0].page_content)


if __name__ == "__main__":
    main(*sys.argv[1:])

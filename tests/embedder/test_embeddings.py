"""The class as its callers see it, with the real model; what every engine makes of it is in test_agreement.py."""

import asyncio
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder import EmbedderConfig, Embeddings
from embedder.errors import EmbedderError, PrecisionError

pytestmark = [
    pytest.mark.model,
    # torch's own export and compile paths warn about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def reference():
    return Embeddings(EmbedderConfig(engine="eager", precision="fp32"))


def test_langchain_interface(reference):
    vector = reference.embed_query("a partial index")
    assert isinstance(reference, LangChainEmbeddings)
    assert asyncio.run(reference.aembed_query("a partial index")) == vector
    assert isinstance(vector, list)
    assert isinstance(vector[0], float)
    assert len(vector) == reference.dimension == 384
    assert np.allclose(reference.embed_documents(["a partial index", "b"])[0], vector, atol=1e-6)
    assert reference.embed_documents([]) == []


@pytest.mark.parametrize("wrong", ["text", [1], [None], [b"bytes"]])
def test_only_text_is_embedded(reference, wrong):
    with pytest.raises(TypeError, match="sequence of str"):
        reference.encode(wrong)


def test_nan_never_leaves():
    embeddings = Embeddings(EmbedderConfig(engine="eager", precision="fp32"))
    embeddings.model.encoder.words.weight = torch.nn.Parameter(torch.full((30522, 384), float("nan")))
    with pytest.raises(EmbedderError, match="NaN"):
        embeddings.encode(["x"])


@pytest.mark.parametrize(
    ("values", "error"), [({"engine": "warp"}, EmbedderError), ({"precision": "fp8"}, PrecisionError)]
)
def test_unknown_choices(values, error):
    with pytest.raises(error, match="one of"):
        Embeddings(EmbedderConfig(**values))


def test_drop_in_for_langchain_faiss(reference):
    # langchain-community warns once on import that it is archived; that is known and the reason it is an extra
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*langchain-community.*")
        from langchain_community.vectorstores import FAISS
    store = FAISS.from_texts(["cats and dogs", "a partial index of a table", "sailing"], reference)
    assert store.similarity_search("index on some rows", k=1)[0].page_content == "a partial index of a table"


def test_loading_the_packaged_model_imports_no_transformers():
    code = (
        "from embedder.text_embedder import TextEmbedder; TextEmbedder().encode(['x']); import sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert not imported & {"transformers", "sentence_transformers", "langchain_core", "langchain_community", "bs4"}

"""The real model on every engine and precision: the same vectors, and nothing compiled after loading."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from embedder import EmbedderConfig, Embeddings, cpu, kernel
from embedder.config import INT8_ISAS
from embedder.errors import EmbedderError, PrecisionError

pytestmark = [
    pytest.mark.model,
    # torch's own export and compile paths warn about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
WORDS = ["the", "partial", "index", "of", "a", "table", "scans", "rows", "während", "naïve", "索引", "ключ", "x1", "42"]
# Cosine to eager fp32, worst and mean, below which an engine has gone wrong.
BOUND = {"fp32": (0.999999, 0.999999), "bf16": (0.999, 0.999), "int8": (0.985, 0.99)}
CASES = ["native-bf16", "native-int8", "aot-bf16", "aot-fp32", "aot-int8", "compile-bf16", "compile-fp32", "eager-bf16"]


def make_texts(count: int, longest: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def reference():
    return Embeddings(EmbedderConfig(engine="eager", precision="fp32"))


@pytest.fixture(scope="module", params=CASES)
def embeddings(request):
    engine, precision = request.param.split("-")
    if engine == "native" and cpu.detect().isa not in kernel.ISAS:
        pytest.skip(f"the native engine needs AVX512_BF16, this CPU has {cpu.detect().isa}")
    if precision == "int8" and cpu.detect().isa not in INT8_ISAS:
        pytest.skip(f"int8 needs AVX512_VNNI or AMX, this CPU has {cpu.detect().isa}")
    return Embeddings(EmbedderConfig(engine=engine, precision=precision))


def test_same_vectors_as_eager_fp32(embeddings, reference):
    texts = ["", "a", *make_texts(60, 300, seed=5)]
    cosines = (embeddings.encode(texts) * reference.encode(texts)).sum(1)
    worst, mean = BOUND[embeddings.precision]
    assert cosines.min() > worst
    assert cosines.mean() > mean


def test_a_vector_does_not_depend_on_its_batch(embeddings):
    texts = make_texts(40, 120, seed=6)
    alone = np.concatenate([embeddings.encode([text]) for text in texts])
    difference = np.abs(embeddings.encode(texts) - alone).max()
    bound = {"fp32": 1e-5, "bf16": 1e-2, "int8": 3e-2}[embeddings.precision]
    assert difference <= (0 if embeddings.plan.engine == "native" else bound)


def refuse(*command: object, **options: object) -> None:
    raise AssertionError(f"a process was started: {command}")


def test_nothing_compiles_after_loading(embeddings, monkeypatch):
    texts = make_texts(940, 30, seed=7) + make_texts(60, 600, seed=8)  # batches of many sizes, of every length
    random.Random(9).shuffle(texts)
    embeddings.encode(texts[:1])
    before = {name: dict(values) for name, values in counters.items()}
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)  # as every compiler is
    start = 0
    while start < len(texts):
        size = 1 + (start * 7) % 64
        embeddings.encode(texts[start : start + size])
        start += size
    assert {name: dict(values) for name, values in counters.items()} == before


def test_langchain_interface(reference):
    vector = reference.embed_query("a partial index")
    assert isinstance(vector, list)
    assert isinstance(vector[0], float)
    assert len(vector) == reference.dimension == 384
    assert np.allclose(reference.embed_documents(["a partial index", "b"])[0], vector, atol=1e-6)
    assert reference.embed_documents([]) == []


def test_the_model_handle_is_kept(embeddings):
    assert isinstance(embeddings.model, torch.nn.Module)
    ids = torch.tensor([[101, 2023, 102]])
    with torch.inference_mode():
        assert embeddings.model(ids, torch.ones_like(ids)).shape == (1, 384)


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
    code = "import sys; from embedder import Embeddings; Embeddings().encode(['x']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert not imported & {"transformers", "sentence_transformers", "langchain", "langchain_community", "bs4"}

"""The class as its callers see it, with the real model; what every engine makes of it is in test_agreement.py."""

import asyncio
import dataclasses
import http.server
import re
import subprocess
import sys
import threading
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder import EmbedderConfig, Embeddings, cpu
from embedder.engines import library
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError, ModelError, PrecisionError

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


def test_unknown_choices():
    for values in ({"engine": "warp"}, {"precision": "fp8"}):
        with pytest.raises(EmbedderError, match="one of"):
            Embeddings(EmbedderConfig(**values))


def test_a_name_alone_is_enough(reference):
    named = Embeddings("all-MiniLM-L6-v2")
    assert named.plan.config == EmbedderConfig()
    np.testing.assert_allclose(named.embed_query("cats"), reference.embed_query("cats"), atol=0.02)
    with pytest.raises(ModelError, match="no model at 'all-MiniLM-L7'"):
        Embeddings("all-MiniLM-L7")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_the_usual_script_runs_as_documented(tmp_path, capsys):
    pages = {
        "index.html": "<a href='owls.html'>Owls</a><p>Cats purr.",
        "owls.html": "<p>Rebuild every night at two by cron.",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    text = (Path(__file__).parents[2] / "docs" / "embedder.md").read_text(encoding="utf-8")
    [script] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "RecursiveUrlLoader" in block]
    handler = partial(QuietHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, warnings.catch_warnings():
        threading.Thread(target=server.serve_forever, daemon=True).start()
        warnings.filterwarnings("ignore", message=".*langchain-community.*")
        exec(compile(script.replace(":8643/", f":{server.server_port}/"), "embedder.md", "exec"), {})
        server.shutdown()
    assert "Rebuild every night" in capsys.readouterr().out.partition("page_content=")[2][:80]


def test_loading_the_packaged_model_imports_no_transformers():
    code = "from embedder.text_embedder import Embedder; Embedder().encode(['x']); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert not imported & {"transformers", "sentence_transformers", "langchain_core", "langchain_community", "bs4"}


QUERIES = ["cats", "how do I rebuild the index every night?", "error 0x80070005", "the of and", "wie geht das"]


@pytest.mark.skipif(not cpu.detect().has_int8, reason="8-bit dot products are not in hardware")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_queries_in_int8_are_close_to_those_of_the_index_and_documents_are_the_same(precision):
    config = EmbedderConfig(engine="native", precision=precision, query_precision="auto")
    mixed, same = Embeddings(config), Embeddings(dataclasses.replace(config, query_precision="same"))
    assert mixed.plan.queries.precision == "int8"
    vectors, expected = mixed.encode(QUERIES, role="query"), same.encode(QUERIES, role="query")
    assert (vectors * expected).sum(axis=1).min() >= 0.995
    assert not np.array_equal(vectors, expected)
    for ours, theirs in zip(mixed.encode_query_tokens(QUERIES), same.encode_query_tokens(QUERIES), strict=True):
        assert (ours.tokens * theirs.tokens).sum(axis=1).mean() >= 0.99
    assert "_document_engine" not in vars(mixed)  # only what is used is in memory
    assert mixed.fingerprint == same.fingerprint
    for each in (mixed, mixed.twin()):
        assert np.array_equal(each.encode(QUERIES), same.encode(QUERIES))
        assert np.array_equal(each.encode(QUERIES, role="query"), vectors)
    assert np.array_equal(mixed.encode_document_tokens(QUERIES).signs, same.encode_document_tokens(QUERIES).signs)


@pytest.mark.skipif(library.architecture() != "x86_64", reason="its instruction sets are those of x86")
@pytest.mark.parametrize(
    ("isa", "precision", "engine", "wanted", "expected"),
    [
        ("avx512_bf16", "bf16", "auto", "auto", "int8"),
        ("avx512_vnni", "fp32", "native", "auto", "int8"),
        ("avx_vnni", "fp32", "auto", "auto", "int8"),
        ("avx512", "fp32", "auto", "auto", "fp32"),
        ("avx2", "bf16", "auto", "auto", "bf16"),
        ("avx2", "fp32", "auto", "int8", "int8"),
        ("generic", "fp32", "auto", "auto", "fp32"),
        ("avx512_vnni", "fp32", "eager", "auto", "fp32"),
        ("avx512_vnni", "fp32", "auto", "same", "fp32"),
        ("avx512_vnni", "int8", "auto", "auto", "int8"),
    ],
)
def test_auto_takes_int8_where_it_is_in_hardware(monkeypatch, isa, precision, engine, wanted, expected):
    simulated = dataclasses.replace(cpu.detect(), isa=isa)
    monkeypatch.setattr(cpu, "detect", lambda: simulated)
    plan = Plan(EmbedderConfig(engine=engine, precision=precision, query_precision=wanted))
    assert (plan.precision, plan.queries.precision) == (precision, expected)
    assert (plan.queries is plan) == (expected == precision)


def test_auto_leaves_models_as_they_are_that_are_wider_than_those_measured(make_model):
    if cpu.detect().isa not in library.ISAS.get(library.architecture(), {}):
        pytest.skip("there are no native kernels here")
    for kind, width, expected in (("bert", 416, "fp32"), ("modernbert", 64, "fp32"), ("bert", 64, "int8")):
        model = str(make_model(kind, hidden_size=width, num_attention_heads=width // 32))
        found = Plan(EmbedderConfig(model, precision="fp32", query_precision="auto")).queries.precision
        assert found == (expected if cpu.detect().has_int8 else "fp32")
        assert Plan(EmbedderConfig(model, precision="fp32", query_precision="int8")).queries.precision == "int8"


def test_queries_in_int8_need_the_native_engine():
    with pytest.raises(PrecisionError, match="the engine native: choose fp32 or bf16, and query precision same"):
        Plan(EmbedderConfig(engine="eager", precision="fp32", query_precision="int8"))
    with pytest.raises(PrecisionError, match="unknown query precision 'fp8': choose auto or same or int8"):
        Plan(EmbedderConfig(query_precision="fp8"))

"""The class as its callers see it, with the real model; what every engine makes of it is in test_agreement.py."""

import asyncio
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

from embedder import EmbedderConfig, Embeddings
from embedder.errors import EmbedderError, ModelError

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
    assert named.config == EmbedderConfig()
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

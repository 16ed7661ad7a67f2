"""Cross-encoders of every family, small and random, against sentence-transformers' own `CrossEncoder`."""

import json
import shutil

import numpy as np
import pytest
import torch

from embedder import EmbedderConfig, cpu, text_embedder
from embedder.engines import library
from embedder.engines.build_worker import write_weights
from embedder.engines.plan import Plan
from embedder.errors import ModelError
from embedder.model.checkpoint import read_head
from embedder.model.spec import read_cross_encoder
from tests.embedder.conftest import WORDS, config_of, save_tokenizer

QUERY = "create a partial index"
TEXTS = ["a partial index of the table", "vacuum", " ".join(WORDS * 9), "the row key of a unique query", ""]
NATIVE = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "modernbert"]
OTHERS = ["electra", "deberta-v2"]  # by transformers
AGREED = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.5}  # of the range of the logits


@pytest.fixture(scope="module")
def make_cross_encoder(tmp_path_factory):
    """Return a function that saves a random cross-encoder of a family, as transformers does, once."""
    made = {}

    def make(kind):
        from transformers import AutoModelForSequenceClassification

        if kind in made:
            return made[kind]
        torch.manual_seed(3)
        folder = made[kind] = tmp_path_factory.mktemp(kind)
        model = AutoModelForSequenceClassification.from_config(config_of(kind, num_labels=1))
        for parameter in model.parameters():  # biases and norms differ, as trained ones do
            if parameter.dim() == 1:
                parameter.data += 0.3 * torch.randn_like(parameter)
        model.save_pretrained(folder)
        save_tokenizer(folder)
        rules = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64}
        rules["pad_token"] = "[PAD]" if kind in ("bert", "distilbert", "modernbert", *OTHERS) else "<pad>"
        types = ["token_type_ids"] if kind in ("bert", "electra") else []
        rules["model_input_names"] = ["input_ids", "attention_mask", *types]
        (folder / "tokenizer_config.json").write_text(json.dumps(rules))
        return folder

    return make


@pytest.fixture(scope="module")
def theirs():
    """Return a function that gives the logits of sentence-transformers, computed once a model."""
    found = {}

    def predict(folder):
        from sentence_transformers import CrossEncoder

        if folder not in found:
            model = CrossEncoder(str(folder), device="cpu")
            pairs = [(QUERY, text) for text in TEXTS]
            found[folder] = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return found[folder]

    return predict


@pytest.fixture
def start(monkeypatch, tmp_path, request):
    """Return a function that starts a reranker, its native package made here instead of by another process."""

    def ensure_package(plan, key):
        folder = tmp_path / plan.precision
        folder.mkdir()
        write_weights(plan.spec, plan.precision, library.architecture(), folder)
        return folder

    monkeypatch.setattr(text_embedder, "ensure_package", ensure_package)
    monkeypatch.setattr(text_embedder, "library_file", lambda plan: request.getfixturevalue("compiled"))

    def start(folder, engine="native", precision="fp32"):
        return text_embedder.CrossEncoder(
            EmbedderConfig(str(folder), engine=engine, precision=precision, threads=2, pairs=True)
        )

    return start


def logits(model, texts=TEXTS, query=QUERY):
    return model.logits(model.pairs(query, texts))


needs_kernels = pytest.mark.skipif(
    cpu.detect().isa not in library.ISAS.get(library.architecture(), {}), reason="there are no native kernels here"
)


@needs_kernels
@pytest.mark.parametrize("kind", NATIVE)
def test_native_gives_the_scores_of_sentence_transformers(make_cross_encoder, theirs, start, kind):
    folder = make_cross_encoder(kind)
    assert np.ptp(theirs(folder)) > 0.5  # there is something to agree on
    for precision, within in AGREED.items():
        model = start(folder, precision=precision)
        assert model.plan.engine == "native"
        scale = 1 if precision == "fp32" else np.ptp(theirs(folder))
        assert np.abs(logits(model) - theirs(folder)).max() < within * scale


@pytest.mark.parametrize("kind", NATIVE + OTHERS)
def test_torch_gives_the_scores_of_sentence_transformers(make_cross_encoder, theirs, start, kind):
    folder = make_cross_encoder(kind)
    assert kind in NATIVE or Plan(EmbedderConfig(str(folder), precision="fp32", pairs=True)).engine == "aot"
    model = start(folder, "eager")
    assert np.abs(logits(model) - theirs(folder)).max() < 1e-3


def test_a_folder_that_sentence_transformers_saved(make_cross_encoder, theirs, start, tmp_path):
    from sentence_transformers import CrossEncoder

    plain = make_cross_encoder("bert")
    CrossEncoder(str(plain), device="cpu", activation_fn=torch.nn.Identity()).save_pretrained(str(tmp_path / "saved"))
    model = start(tmp_path / "saved", "eager")
    assert np.abs(model.to_scores(logits(model)) - theirs(plain)).max() < 1e-3


def test_pairs_are_cut_to_the_length_of_the_model(make_cross_encoder, start):
    model = start(make_cross_encoder("bert"), "eager")
    lengths = [len(row) for row in model.pairs(" ".join(WORDS * 9), TEXTS)]
    assert max(lengths) == model.spec.max_length == 64
    assert np.isfinite(logits(model, ["\udfff", "a"], "\ud800")).all()


@pytest.mark.parametrize(
    ("file", "changes", "activation"),
    [
        ("config.json", {}, "sigmoid"),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "identity"),
        ("config.json", {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, "identity"),
        ("config.json", {"sentence_transformers": {"activation_fn": "own.code.Identity"}}, "sigmoid"),
        ("config_sentence_transformers.json", {"activation_fn": "torch.nn.modules.linear.Identity"}, "identity"),
        ("config_sentence_transformers.json", {"activation_fn": "torch.nn.modules.activation.Sigmoid"}, "sigmoid"),
    ],
)
def test_the_activation_is_that_of_the_config(make_cross_encoder, start, tmp_path, file, changes, activation):
    model = start(changed(make_cross_encoder("bert"), tmp_path, file, changes), "eager")
    assert model.spec.activation == activation
    plain = logits(model)
    scores = model.to_scores(plain)
    assert np.allclose(scores, plain if activation == "identity" else 1 / (1 + np.exp(-plain)))


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        ("config.json", {"id2label": {"0": "no", "1": "yes"}}, "has 2 labels: a cross-encoder for reranking has one"),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}, "activation torch.nn.Tanh"),
        ("config.json", {"model_type": "deberta"}, "whose head is not known"),
        ("config.json", {"model_type": "roberta"}, "has no tensor 'classifier.dense.weight'"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "puts a prompt before each pair"),
        ("sentence_bert_config.json", {"transformer_task": "text-generation"}, "a model for text-generation"),
        ("config.json", {"classifier_pooling": "max-min"}, "the pooling max-min, which is not supported"),
    ],
)
def test_what_is_no_cross_encoder_of_ours_is_refused(make_cross_encoder, tmp_path, file, changes, says):
    folder = changed(make_cross_encoder("bert"), tmp_path, file, changes)
    with pytest.raises(ModelError, match=says):
        read_head(read_cross_encoder(folder))


def changed(model, tmp_path, file, changes):
    folder = shutil.copytree(model, tmp_path / "model")
    path = folder / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | changes))
    return folder

"""Queries in int8 over an index in another precision, with the real model."""

import numpy as np
import pytest

from embedder import EmbedderConfig, cpu
from embedder.engines.plan import Plan
from embedder.text_embedder import Embedder
from indexer.generation.generation import Generation
from rag.commands.models import with_index_precision
from rag.errors import FingerprintMismatch
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from rag.stores import check_fingerprint
from tests.rag.conftest import PAGES, Site, start

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not cpu.detect().has_int8, reason="8-bit dot products are not in hardware"),
]
TEXTS = [*PAGES.values()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The index of a site by its precision."""
    sites = {precision: Site(tmp_path_factory.mktemp(precision)) for precision in ("fp32", "int8")}
    for precision, site in sites.items():
        site.build(Embedder(EmbedderConfig(precision=precision)))
    return {precision: site.index for precision, site in sites.items()}


def test_a_server_embeds_queries_in_int8_and_texts_of_callers_as_the_index_has_them(built):
    live = LiveRetriever(Follower(with_index_precision(load({"index": str(built["fp32"])}, {}))))
    start(live)
    status, embedder = live.status(), live.follower.model.embedder
    assert (status["precision"], status["query_precision"]) == ("fp32", "int8")
    assert live.search(SearchRequest("dead tuples", k=1)).hits[0].title == "Vacuum"
    queries = live.embed(["dead tuples"], "query").vectors
    assert np.array_equal(queries, Embedder(EmbedderConfig(precision="int8")).encode(["dead tuples"], role="query"))
    texts = live.embed(TEXTS).vectors
    assert np.array_equal(texts, Embedder(EmbedderConfig(precision="fp32")).encode(TEXTS))
    assert "_document_engine" not in vars(embedder)  # the threads of searches do without it
    live.close()


@pytest.mark.parametrize(
    ("index", "precision", "queries", "is_allowed"),
    [
        ("fp32", "fp32", "same", True),
        ("fp32", "fp32", "int8", True),
        ("fp32", "bf16", "int8", False),
        ("fp32", "int8", "same", False),
        ("int8", "int8", "auto", True),
        ("int8", "fp32", "int8", False),
    ],
)
def test_pairs_of_precisions(built, index, precision, queries, is_allowed):
    values = {"index": str(built[index]), "precision": precision, "query_precision": queries}
    settings = with_index_precision(load(values, {}))
    manifest, fingerprint = Generation.open(built[index]).manifest, Plan(settings.embedder_config()).fingerprint
    if is_allowed:
        check_fingerprint(manifest, fingerprint)
    else:
        with pytest.raises(FingerprintMismatch, match=f"precision: index '{index}', here '{precision}'"):
            check_fingerprint(manifest, fingerprint)


def test_queries_have_the_precision_of_an_index_whose_language_the_model_does_not_know(site):
    (site.source / "greek.md").write_text("# Ευρετήριο\n\nΠώς επαναφέρω ένα αντίγραφο ασφαλείας της βάσης;\n")
    site.build()
    settings = load({"index": str(site.index)}, {})
    assert (settings.query_precision, with_index_precision(settings).query_precision) == ("auto", "same")
    explicit = load({"index": str(site.index), "query_precision": "int8"}, {})
    assert with_index_precision(explicit).query_precision == "int8"

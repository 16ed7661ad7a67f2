"""The kinds of vector index: which one a corpus gets, and how it is built and recognised.

Every kind keeps the vectors themselves as float16 codes in row order, the store: scores always come from it, filtered
searches may read it alone, and the next build takes unchanged vectors out of it. What a kind adds finds candidates.
"""

import math
from dataclasses import dataclass
from typing import Any

import faiss as partly_typed
import numpy as np
import numpy.typing as npt

faiss: Any = partly_typed  # its own type stubs leave out or misstate much of what is used here
KINDS = ("flat", "pq", "ivf")
_METRIC = faiss.METRIC_INNER_PRODUCT

# Where one kind becomes faster than the one before: measured, see "Index types" in docs/operations.md.
_PQ_FROM = 2_000
_IVF_FROM = 131_072

_BITS = 4  # of a product quantiser's code: 16 centroids, what fast scan keeps in registers
_LEAST = 39 << _BITS  # vectors that k-means wants for so many centroids; with fewer, every kind is flat
_PROBES = 192  # lists that a query reads
_PER_LIST = 40  # vectors that train one list
_ROUNDS = 10  # of k-means: more of them change recall by less than 0.001
_SAMPLE = 20_000  # vectors that train a product quantiser, at least
_BLOCK = 16_384  # vectors that are float32 at the same time
_SEED = 1234
REFINED = 3  # candidates scored exactly, for each hit that is asked for


@dataclass(frozen=True)
class IndexParts:
    """The parts of an index."""

    kind: str
    store: Any  # IndexScalarQuantizer
    base: Any = None  # what finds candidates in a pq or an ivf


def new_store(dimension: int) -> Any:
    """Return an empty store: float16, inner product."""
    return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, _METRIC)


def choose(count: int, kind: str = "auto") -> str:
    """Return the kind for `count` vectors: the one named, if they can train it."""
    if count < _LEAST:
        return "flat"
    if kind != "auto":
        return kind
    if count < _PQ_FROM:
        return "flat"
    return "pq" if count < _IVF_FROM else "ivf"


def build(store: Any, kind: str, trained: Any = None) -> Any:
    """Build the index of a kind over a store, which it goes on using.

    Everything is derived from the stored codes, with fixed seeds: the same vectors in the same order give the same
    file, whether they come from the embedder or out of another index. With `trained`, the base of an earlier index
    over nearly the same vectors, a pq takes over what that was trained to, which costs nothing.
    """
    if kind == "flat":
        return store
    return _refined(_pq(store, trained) if kind == "pq" else _ivf(store), store)


def open_parts(index: Any) -> IndexParts | None:
    """Return the kind and the parts of an index that has been read; None if `build` does not make such."""
    if isinstance(index, faiss.IndexHNSWSQ):
        store = faiss.downcast_index(index.storage)
        return IndexParts("flat", store) if _is_store(store, index) else None  # of an older program
    if isinstance(index, faiss.IndexRefine):
        store, base = faiss.downcast_index(index.refine_index), faiss.downcast_index(index.base_index)
        if _is_store(store, index) and base.ntotal == index.ntotal and base.d == index.d:
            if isinstance(base, faiss.IndexIVFPQFastScan):
                return IndexParts("ivf", store, base)
            if isinstance(base, faiss.IndexPQFastScan):
                return IndexParts("pq", store, base)
        return None
    return IndexParts("flat", index) if _is_store(index, index) else None


def _is_store(store: Any, index: Any) -> bool:
    return (
        isinstance(store, faiss.IndexScalarQuantizer)
        and (index.metric_type, store.metric_type) == (_METRIC, _METRIC)
        and store.sq.qtype == faiss.ScalarQuantizer.QT_fp16
        and (store.ntotal, store.d) == (index.ntotal, index.d)
        and store.codes.size() == store.ntotal * store.code_size
    )


def _blocks(count: int) -> list[tuple[int, int]]:
    return [(start, min(_BLOCK, count - start)) for start in range(0, count, _BLOCK)]


def _sample(store: Any, size: int) -> npt.NDArray[np.float32]:
    """Return `size` stored vectors chosen by chance, in row order, or all of them."""
    rows = np.arange(store.ntotal)
    if size < store.ntotal:
        rows = np.sort(np.random.default_rng(_SEED).choice(store.ntotal, size, replace=False))
    sample: npt.NDArray[np.float32] = store.reconstruct_batch(rows)
    return sample


def _fill(index: Any, store: Any) -> None:
    for start, size in _blocks(store.ntotal):
        index.add(store.reconstruct_n(start, size))


def _parts(dimension: int) -> int:
    """Sub-quantisers of a vector: one for two dimensions loses least for what it costs to scan."""
    return dimension // 2 if dimension % 2 == 0 else dimension


def _pq(store: Any, trained: Any) -> Any:
    index = faiss.IndexPQFastScan(store.d, _parts(store.d), _BITS, _METRIC)
    if trained is not None and trained.pq.M == index.pq.M and trained.pq.d == index.pq.d:
        index.pq, index.is_trained = trained.pq, True
    else:
        index.train(_sample(store, _SAMPLE))
    _fill(index, store)
    return index


def _ivf(store: Any) -> Any:
    nlist = min(store.ntotal, 1 << round(math.log2(4 * math.sqrt(store.ntotal))))
    sample = _sample(store, max(_PER_LIST * nlist, _SAMPLE))
    exact = faiss.IndexFlatIP(store.d)
    clustering = faiss.Clustering(store.d, nlist)
    clustering.niter, clustering.seed, clustering.spherical = _ROUNDS, _SEED, True
    clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, _PER_LIST
    clustering.train(sample, exact)
    index = faiss.IndexIVFPQFastScan(exact, store.d, nlist, _parts(store.d), _BITS, _METRIC)
    index.train(sample)
    _fill(index, store)
    index.nprobe = min(_PROBES, nlist)
    # Vectors are assigned through a matrix product; a query reads every centroid once, and half the bytes are faster.
    compact = new_store(store.d)
    compact.add(exact.reconstruct_n(0, nlist))
    index.quantizer = compact
    index.referenced_objects = [compact, exact]
    return index


def _refined(base: Any, store: Any) -> Any:
    index = faiss.IndexRefine(base, store)
    index.k_factor = REFINED
    return index

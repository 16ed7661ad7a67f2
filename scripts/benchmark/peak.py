"""The peak of the cores in multiplying, measured, and how much of it an encoder asks for."""

import statistics
import time
from collections.abc import Callable, Iterable

import torch

from embedder import cpu
from embedder.model.shape import Shape

# rows, inner, columns: square ones, and what the linear layers of small and base models multiply in bulk
_PRODUCTS = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 384, 1536), (4096, 1536, 384), (4096, 768, 3072))
_SECONDS = 0.05  # a product
_VNNI = frozenset({"amx", "avx512_bf16", "avx512_vnni"})  # without, torch._int_mm is a scalar loop: 3 GFLOP/s
Maker = Callable[[int, int, int], Callable[[], object]]  # of a product, by rows, inner, columns


def flops(shape: Shape, lengths: Iterable[int]) -> float:
    """Return the floating-point operations that texts of so many real tokens need; padding does not count.

    Two for each weight of the linear layers and token, and four per layer, hidden unit and pair of tokens of which one
    attends to the other.
    """
    modern = shape.modern
    products = 3 if modern else 2  # of the feed-forward part
    weights = shape.layers * (4 * shape.hidden**2 + products * shape.hidden * shape.intermediate)
    local = shape.layers - -(-shape.layers // modern.global_every) if modern else 0
    near = 2 * modern.window + 1 if modern else 0
    return sum(
        2.0 * weights * n + 4.0 * shape.hidden * n * ((shape.layers - local) * n + local * min(n, near))
        for n in lengths
    )


def measure() -> dict[str, float]:
    """Return the GFLOP/s of torch's fastest matrix product by precision; one it cannot multiply is left out.

    The median of a twentieth of a second each, because the clock frequency of a shared machine wanders: measure it
    close to what it is compared with.
    """
    found: dict[str, float] = {}
    for precision, makers in products(cpu.detect()).items():
        rates = [_rate(make, *sizes) for make in makers for sizes in _PRODUCTS]
        if any(rates):
            found[precision] = round(max(rates), 1)
    return found


def products(processor: cpu.Cpu) -> dict[str, list[Maker]]:
    """Return the products of each precision that torch does not compute in a scalar loop, which takes minutes here."""
    makers: dict[str, list[Maker]] = {
        "fp32": [lambda m, k, n: _dense(m, k, n, torch.float32), lambda m, k, n: _packed(m, k, n, torch.float32)]
    }
    if processor.runs_bf16:
        makers["bf16"] = [
            lambda m, k, n: _dense(m, k, n, torch.bfloat16),
            lambda m, k, n: _packed(m, k, n, torch.bfloat16),
        ]
    makers["int8"] = [_int_mm, _quantised_linear] if processor.isa in _VNNI else [_quantised_linear]
    return makers


def _rate(make: Maker, m: int, k: int, n: int) -> float:
    """Return the median GFLOP/s of a product, or 0 where this torch does not have it."""
    try:
        product = make(m, k, n)
        product()
    except (RuntimeError, AttributeError, NotImplementedError):
        return 0.0
    seconds, end = [], time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - start)
    return 2 * m * k * n / statistics.median(seconds) / 1e9


def _dense(m: int, k: int, n: int, dtype: torch.dtype) -> Callable[[], object]:
    x, w = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    out = torch.empty(m, n, dtype=dtype)
    return lambda: torch.mm(x, w, out=out)


def _packed(m: int, k: int, n: int, dtype: torch.dtype) -> Callable[[], object]:
    """oneDNN's linear layer with prepacked weights, which torch's frozen models run."""
    x = torch.randn(m, k).to(dtype)
    w = torch.ops.mkldnn._reorder_linear_weight(torch.randn(n, k).to(dtype), m)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")


def _int_mm(m: int, k: int, n: int) -> Callable[[], object]:
    x = torch.randint(-127, 127, (m, k), dtype=torch.int8)
    w = torch.randint(-127, 127, (k, n), dtype=torch.int8)
    return lambda: torch._int_mm(x, w)


def _quantised_linear(m: int, k: int, n: int) -> Callable[[], object]:
    """oneDNN's quantised linear layer, the product that torch's own int8 models run."""
    x = torch.randint(0, 255, (m, k), dtype=torch.uint8)
    w = torch.ops.onednn.qlinear_prepack(torch.randint(-127, 127, (n, k), dtype=torch.int8).t(), [m, k])
    scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.int32)
    return lambda: torch.ops.onednn.qlinear_pointwise(
        x, 1.0, 0, w, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )

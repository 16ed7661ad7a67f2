"""Pacing: callers who may see a part get answers at fixed moments, so that times tell little of the rest.

An answer is sent at the next multiple of a quantum after its request has come: what takes less than that looks alike
(Köpf and Dürmuth 2009). The server holds what is ready, in no thread; see `web.server.pacer`.
"""

import math
from collections.abc import Mapping
from contextvars import ContextVar

from flask import Flask

from web.guards.scoped_retriever import sees_all

QUANTUM_S = 0.010
_is_paced: ContextVar[bool] = ContextVar("is_paced", default=False)


def due(arrived: float, now: float) -> float:
    """Return when the answer of the request of this context is to be sent; 0 for at once. Times are monotonic."""
    if not _is_paced.get():
        return 0.0
    return arrived + math.ceil((now - arrived) / QUANTUM_S) * QUANTUM_S


def told(took_ms: Mapping[str, float]) -> dict[str, float]:
    """Return milliseconds by stage as the caller is told them: of paced answers the total alone, rounded up."""
    if not _is_paced.get():
        return dict(took_ms)
    quantum = QUANTUM_S * 1000
    return dict.fromkeys(took_ms, 0.0) | {"total": math.ceil(took_ms["total"] / quantum) * quantum}


def register(app: Flask) -> None:
    """Have the answers to callers who may see a part paced. Call it once access has been registered."""
    app.before_request(_begin)


def _begin() -> None:
    _is_paced.set(not sees_all())

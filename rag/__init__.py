"""The application: settings, search, evaluation and the command line. `Client` calls a running server."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from rag.client import Client

        return Client
    raise AttributeError(f"module 'rag' has no attribute {name!r}")

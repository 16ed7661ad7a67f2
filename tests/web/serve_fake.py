"""Serves the application with a fake retriever, as a process: `… serve_fake PORT FOLDER [WORKERS [DEADLINE]]`."""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flask import Flask

from rag.query.request import SearchRequest
from rag.query.results import Answer
from rag.settings import Settings
from tests.web.fakes import FakeDocument, FakeRetriever
from web.app import create_app
from web.server import serve


class SlowStart(FakeRetriever):
    """Ready once the file `go` appears; writes `closed` when closed.

    Each search for "wait" writes `waiting…` and ends when `go-on` appears.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.ready = False
        self.waits = itertools.count()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._await("go")
        self.ready = True

    def _await(self, name: str) -> None:
        while not (self.folder / name).exists() and not self.closed.is_set():
            self.closed.wait(0.02)

    def search(self, request: SearchRequest, embedded: Any = None, seen: Any = None) -> Answer:
        if request.query == "wait":
            (self.folder / f"waiting-{os.getpid()}-{next(self.waits)}").touch()
            self._await("go-on")
        return super().search(request, embedded)

    def documents(self, collection: str = "default") -> Iterator[FakeDocument]:
        if collection != "large":
            return super().documents(collection)
        return (FakeDocument({"title": f"Page {n}", "text": "x" * 1000, "passages": []}) for n in range(3000))

    def close(self) -> None:
        super().close()
        (self.folder / "closed").touch()


def main() -> None:
    port, folder, workers, seconds = [*sys.argv[1:], *("2", "10")[len(sys.argv) - 3 :]]

    settings = Settings(
        port=int(port),
        workers=int(workers),
        deadline=float(seconds),
        keys=str(Path(folder) / "keys.json"),
        proxies=int(os.environ.get("PROXIES", "0")),
    )

    def factory() -> Flask:
        return create_app(SlowStart(Path(folder)), settings)

    serve(settings, factory)


if __name__ == "__main__":
    main()

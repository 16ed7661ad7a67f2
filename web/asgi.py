"""The application for an ASGI server, such as a replica of Ray Serve: `web.asgi.application()`, in each process."""

import dataclasses
import threading
from typing import Any

from rag.settings import Settings, load
from web.server.admission import THREADS
from web.wsgi import application as wsgi_application

_LOOK_S = 0.1


def application(settings: Settings | None = None) -> Any:
    """Build the whole application, with one thread for the model unless it is told; returns once it answers.

    No request should come before. It waits for as long as that takes: for an index, too, that is still to come.

    Raises:
        ImportError: a2wsgi is not installed, see the extra `rayserve`.
        SettingsError, StoreAddressError: as `web.wsgi.application`.
    """
    from a2wsgi import WSGIMiddleware

    settings = settings or load()
    app = wsgi_application(dataclasses.replace(settings, workers=1, threads=settings.threads or 1))
    while not app.extensions["retriever"].ready:
        threading.Event().wait(_LOOK_S)
    return WSGIMiddleware(app, workers=THREADS)

"""The application for a WSGI server: `web.wsgi:application()`, called in each worker after the fork."""

from flask import Flask

from rag.jobs import Jobs
from rag.live import LiveRetriever
from rag.settings import load
from web.app import create_app


def application() -> Flask:
    """Build the application from the environment; the model loads in the background. Raises SettingsError."""
    settings = load()
    retriever = LiveRetriever(settings)
    retriever.start()
    app = create_app(retriever, settings, Jobs(settings))
    retriever.on_run = app.extensions["metrics"].batch
    return app

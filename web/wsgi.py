"""The application for a WSGI server: `web.wsgi:application()`, called in each worker after the fork."""

from flask import Flask

from rag.insights.recorder import Recorder
from rag.serving.job_manager import JobManager
from rag.serving.live import LiveRetriever
from rag.serving.pushed_queue import PushedQueue
from rag.settings import Settings, load
from web.app import create_app


def application(settings: Settings | None = None) -> Flask:
    """Build the application, from the environment unless it is told; the model loads in the background.

    Raises SettingsError.
    """
    settings = settings or load()
    retriever = LiveRetriever(settings)
    retriever.start()
    pushes = PushedQueue(settings)
    recorder = Recorder(settings) if settings.insights else None
    app = create_app(retriever, settings, JobManager(settings), pushes, recorder)
    pushes.start()
    if recorder:
        recorder.start()
    retriever.on_run = app.extensions["metrics"].batch
    return app

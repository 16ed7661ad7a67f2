import pytest
from flask import Flask
from flask.testing import FlaskClient

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app


@pytest.fixture
def retriever() -> FakeRetriever:
    return FakeRetriever()


@pytest.fixture
def app(retriever: FakeRetriever) -> Flask:
    return create_app(retriever, Settings())


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()

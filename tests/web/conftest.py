import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.web.fakes import FakeRetriever, FakeSettings
from web.app import create_app


@pytest.fixture
def retriever() -> FakeRetriever:
    return FakeRetriever()


@pytest.fixture
def app(retriever: FakeRetriever) -> Flask:
    return create_app(retriever, FakeSettings())


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()

import pytest

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app


@pytest.fixture
def retriever():
    return FakeRetriever()


@pytest.fixture
def app(retriever):
    return create_app(retriever, Settings())


@pytest.fixture
def client(app):
    return app.test_client()

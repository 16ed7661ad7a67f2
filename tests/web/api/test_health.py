from flask.testing import FlaskClient

from tests.web.fakes import FakeRetriever


def test_livez_answers_while_loading(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.ready = False
    assert client.get("/livez").status_code == 200


def test_readyz_follows_the_retriever(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.ready = False
    waiting = client.get("/readyz")
    assert waiting.status_code == 503
    assert waiting.mimetype == "application/problem+json"
    assert waiting.get_json()["detail"] == retriever.reason
    assert waiting.headers["Retry-After"]
    retriever.ready = True
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.get_json() == retriever.status()

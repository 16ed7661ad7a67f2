import pytest
from jinja2 import Environment

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web import compiled_templates
from web.app import create_app


def test_templates_of_the_page_are_compiled_once_for_all_applications(
    retriever: FakeRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_templates.compile_page()
    monkeypatch.delattr(Environment, "compile")
    assert create_app(retriever, Settings()).test_client().get("/?q=index").status_code == 200

import pytest
from jinja2 import Environment

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import compile_page, create_app


def test_templates_of_the_page_are_compiled_once_for_all_applications(
    retriever: FakeRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_page()
    monkeypatch.delattr(Environment, "compile")
    assert create_app(retriever, Settings()).test_client().get("/?q=index").status_code == 200

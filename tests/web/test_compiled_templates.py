import pytest
from jinja2 import Environment

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web import compiled_templates
from web.app import create_app
from web.server.refusals import busy_page


def test_an_application_compiles_no_template_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_templates.compile_busy()
    monkeypatch.setattr(Environment, "compile", None)
    page = busy_page(create_app(FakeRetriever(), Settings()), retry_after=2)
    assert page.startswith(b"HTTP/1.1 503 ")
    assert b"</html>" in page

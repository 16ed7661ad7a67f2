import shutil
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP docs.test 127.0.0.1",
]


class QuietHandler(WSGIRequestHandler):
    def log(self, *args: object) -> None:
        """Keep requests out of the test output."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def retriever() -> FakeRetriever:
    return FakeRetriever()


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def server(retriever: FakeRetriever, settings: Settings) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, create_app(retriever, settings), threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def context(browser: Browser, server: str) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=server)
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test if a script fails or the content security policy is broken."""
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    yield page
    assert faults == []


@pytest.fixture
def plain_page(browser: Browser, server: str) -> Iterator[Page]:
    """A page of a browser that runs no scripts."""
    context = browser.new_context(base_url=server, java_script_enabled=False)
    yield context.new_page()
    context.close()

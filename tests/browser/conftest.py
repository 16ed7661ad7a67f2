import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from tests.web.running import running
from web.app import create_app

expect.set_options(timeout=300_000)  # ms
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


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def retriever():
    return FakeRetriever()


@pytest.fixture
def settings():
    return Settings()


@pytest.fixture
def server(retriever, settings):
    with running(create_app(retriever, settings)) as url:
        yield url


@pytest.fixture
def context(browser, server):
    context = browser.new_context(base_url=server)
    context.set_default_timeout(300_000)
    yield context
    context.close()


@pytest.fixture
def page(context):
    """A page that fails its test if a script fails or the content security policy is broken."""
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    yield page
    assert faults == []


@pytest.fixture
def plain_page(browser, server):
    """A page of a browser that runs no scripts."""
    context = browser.new_context(base_url=server, java_script_enabled=False)
    yield context.new_page()
    context.close()

"""The documentation as a site, in a real browser: legible for everybody, on small screens too."""

import importlib.util
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.parts import assert_legible

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["index", "search-box", "benchmarks", "reference"]  # between them every kind of element

SEARCH = "http://search.test"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = tmp_path_factory.mktemp("site")
    module.write_site(target, SEARCH)
    return target


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_legible_for_everybody(page, site, name):
    page.route(f"{SEARCH}/embed.js", lambda route: route.fulfill(path=ROOT / "web" / "static" / "embed.js"))
    page.goto((site / f"{name}.html").as_uri())
    expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()
    assert_legible(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.keyboard.press("/")
    expect(page.get_by_role("combobox")).to_have_attribute("placeholder", "Search the documentation")

"""The page of changes in Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import assert_legible

pytestmark = pytest.mark.browser


def test_changes_are_read_and_another_day_is_chosen_by_keyboard(page: Page) -> None:
    page.goto("/changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("What changed")
    expect(page.get_by_role("deletion")).to_have_text("It is 4 MB.")
    expect(page.get_by_role("insertion")).to_have_text("It is 8 <b>.")
    assert_legible(page)
    page.get_by_role("link", name="Since 2026-11-20").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=g0"))
    page.get_by_role("link", name="Settings").focus()
    expect(page.get_by_role("link", name="Settings")).to_have_attribute("href", "https://docs.example/set.html")

"""A picture of everything that is shown, on three sizes of screen in light and dark, to be looked at.

`pytest tests/browser/test_screenshots.py --basetemp=shots` keeps them in shots/pictures. What a program can tell of a
picture is asserted: nothing leaves the screen, nothing is cut off unless it can be scrolled or ends in an ellipsis.
"""

import struct

import pytest

from tests.browser.looks import LOOKS

pytestmark = pytest.mark.browser

SIZES = ((1280, 900), (768, 1024), (390, 844))
FAULTS = """() => {
  const faults = [];
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element), place = element.getBoundingClientRect();
    const unseen = element.closest(".unseen") || style.clipPath !== "none" || !element.checkVisibility();
    if (unseen || !place.width || element.parentElement.closest("svg, select")) continue;
    let above = element.parentElement;
    while (above && !scrolls(above)) above = above.parentElement;
    const name = element.outerHTML.slice(0, 120);
    if (!above && (place.right > innerWidth + 1 || place.left < -1)) faults.push(`off the screen: ${name}`);
    const is_cut = element.scrollWidth > element.clientWidth + 1 && ["hidden", "clip"].includes(style.overflowX);
    if (is_cut && style.textOverflow !== "ellipsis") faults.push(`cut off: ${name}`);
  }
  return faults;
}"""


@pytest.fixture
def pictures(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "pictures"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("reach", LOOKS, ids=lambda reach: reach.__name__)
def test_it_fits_on_every_screen(page, retriever, reach, pictures):
    reach(page, retriever)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            picture = pictures / f"{reach.__name__}-{width}-{scheme}.png"
            page.screenshot(path=picture)
            assert struct.unpack(">II", picture.read_bytes()[16:24]) == (width, height)
        assert page.evaluate(FAULTS) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width

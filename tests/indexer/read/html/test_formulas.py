"""Formulas stand once in a text, and readable; pictures say what they show where that is more than a sign."""

import pytest

from tests.indexer.read.html.test_main_content import text

MATHML = "<math><mi>a</mi><mo>+</mo><mi>b</mi></math>"
TEX = '<math><semantics><mi>a</mi><annotation encoding="application/x-tex">E = mc^2</annotation></semantics></math>'
FORMULAS = {
    "KaTeX": (
        f"<span class=katex><span class=katex-mathml>{TEX.format('E = mc^2')}</span>"
        "<span class=katex-html aria-hidden=true><span class=base>E=mc</span></span></span>",
        "E = mc^2",
    ),
    "Wikipedia with a picture for all": (f"<span><span>{TEX}</span><img alt='$E = mc^2$'></span>", "E = mc^2"),
    "MathML with fractions": (
        (
            "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mi>b</mi></mfrac><mo>=</mo><msqrt><mi>c</mi>"
            "</msqrt></math>"
        ),
        "a + 1 b = c",
    ),
    "pandoc webtex": (
        (
            '<img style="vertical-align:middle" src="https://latex.codecogs.com/png.latex?E" alt="E = m c^2" '
            'class="math inline">'
        ),
        "E = m c^2",
    ),
    "img in link": ('<a href="/wiki/F"><img class="mwe-math-fallback-image-inline" alt="E=mc^{2}"></a>', "E=mc^{2}"),
    "mathjax 2 common html": (
        (
            '<span class="MathJax_Preview" style="display: none;"></span><span class="mjx-chtml MathJax_CHTML" '
            'data-mathml="&lt;math&gt;&lt;mi&gt;x&lt;/mi&gt;&lt;/math&gt;"><span class="mjx-math" '
            'aria-hidden="true"><span>x</span></span><span class="MJX_Assistive_MathML" role="presentation"><math>'
            '<mi>x</mi></math></span></span><script type="math/tex">x_1</script>'
        ),
        "x_1",
    ),
}


@pytest.mark.parametrize(("markup", "expected"), FORMULAS.values(), ids=FORMULAS)
def test_a_formula_stands_once_and_readable(markup: str, expected: str) -> None:
    assert text(f"<main><h1>T</h1><p>The law is {markup} at rest.</p></main>") == f"The law is {expected} at rest."


def test_a_formula_on_a_line_of_its_own_is_a_paragraph() -> None:
    markup = f'<p>Thus <math display="block">{MATHML[6:]} holds.</p>'
    assert text(f"<main>{markup}</main>") == "Thus\n\na + b\n\nholds."


ALT = "Diagram of a pump with two valves"
SHOWN = [
    f'<img alt="{ALT}">',
    f'<figure><img alt="{ALT}" src=a.png><figcaption>Figure 1.</figcaption></figure>',
    f'<a href="pump-large.png"><img alt="{ALT}" width=640></a>',
]
LEFT_OUT = [
    f'<a href="/"><img alt="{ALT}"></a>', f'<img alt="{ALT}" class=site-logo>',
    '<img alt="_images/pump.png">',
]  # fmt: skip


@pytest.mark.parametrize(("markup", "count"), [*((each, 1) for each in SHOWN), *((each, 0) for each in LEFT_OUT)])
def test_a_picture_says_what_it_shows_and_logos_and_ornaments_nothing(markup: str, count: int) -> None:
    found = text(f"<main><h1>T</h1><p>Words.</p>{markup}</main>")
    assert found.count(ALT) == count
    assert count or found == "Words."


def test_a_picture_of_a_character_is_that_character() -> None:
    assert text('<main><p>It works <img class=emoji alt="👍"> well.</p></main>') == "It works 👍 well."

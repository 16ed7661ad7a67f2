"""Numbers in the markup of a document that are none, or have no end, cost no text."""

import re
from collections.abc import Callable

import pytest

from indexer.read.html import main_content
from indexer.read.markup import asciidoc, markdown, restructured
from indexer.records import Extraction

NO_NUMBERS = ("9" * 5_000, "-1", "tide", "²", "٣", "1e999", "1.5", "")
ASCIIDOC = """= Ropes
:toclevels: 3
:leveloffset: 1
:leveloffset: +1

[cols="2*,1"]
|===
|a |b
2+|x .3+|y 2.3+|z
3*|w
|===

[start=4]
. one

image::x.png[width=300]
include::b.adoc[lines=1..5,leveloffset=+1,indent=4]

== Knots

The end.
"""
RESTRUCTURED = """.. table:: x
   :width: 70 %

   == ==
   a1 b2
   == ==

.. list-table::
   :header-rows: 1
   :widths: 10 20

   * - a
     - b

.. figure:: b.png
   :figwidth: 50
   :width: 50 %
   :scale: 50

.. sectnum::
   :depth: 2

.. |c| unicode:: 0x2019 8217

1. one
2. two

[1]_ |c|

.. [1] foot

The end.
"""
MARKDOWN = """---
date: 2026-01-31
weight: 3
---
1. one

```py {linenos=1 hl_lines="2-3"}
x
```
![a](b.png =100x200){width=100px}
[^1]: note

:::{code-block} python
:lineno-start: 10
x
:::

The end.
"""
HTML = """<main><ol start=3><li value=7>x</ol><table border=1><tr><td colspan=2 rowspan=3>a<td>1</table>
<div role=heading aria-level=3>h</div>&#8217; &#x2019;<table><tr><td><pre>1
2</pre><td><pre>a
b</pre></table><p>The end.</main>"""


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (asciidoc.read, ASCIIDOC),
        (restructured.read, RESTRUCTURED),
        (markdown.read, MARKDOWN),
        (main_content.read, HTML),
    ],
)
def test_what_is_no_number(read: Callable[[bytes, str | None], Extraction], text: str) -> None:
    for number in re.finditer(r"\d+", text):
        for other in NO_NUMBERS:
            document = text[: number.start()] + other + text[number.end() :]
            sections = read(document.encode(), "utf-8").sections
            assert "The end." in sections[-1].text, (text[: number.end()][-40:], other[:9])

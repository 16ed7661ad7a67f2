"""Dialects of Markdown and reStructuredText: what a reader of each sees is read, its marks are not."""

from collections.abc import Callable

import pytest

from indexer.read.markup import markdown, restructured
from indexer.records import Extraction
from indexer.text import reader_notes

# text, what is read in this order, what is not
BOXES = [
    ('!!! note "Be quick, don\'t"\n\n    Feed **them**.\n\nAfter.',
     ["Be quick", "Feed them.", "After."], ["!!!", "**", "note"]),
    (":::tip[With `code`]\nText.\n:::", ["With code", "Text."], [":::", "["]),
    (":::{admonition} My title\n:class: tip\nText with {ref}`a <b>`.\n:::",
     ["My title", "Text with a."], [":::", ":class:", "{"]),
    ("> [!IMPORTANT]\n>\n> - a\n> - b", ["Important", "- a", "- b"], ["[!"]),
    ('=== "Python"\n\n    ```python\n    print()\n    ```\n\n=== "Go"\n\n    Use `go`.\n',
     ["Python", "print()", "Go", "Use go."], ["===", "```"]),
    ("::: code-group\n\n```sh [npm]\nnpm i x\n```\n\n```sh{1} [yarn]\nyarn add x\n```\n\n:::",
     ["npm", "npm i x", "yarn", "yarn add x"], [":::", "[", "{"]),
    ('??? question "How?"\n\n    | a | b |\n    |---|---|\n    | 1 | 2 |\n',
     ["How?", "a | b", "1 | 2"], ["???", "---"]),
    ("> [!faq]+ Are callouts *foldable*?\n> Yes!\n> > [!todo]\n> > Nested",
     ["Are callouts foldable?", "Yes!", "Todo", "Nested"], ["[!", "*"]),
]  # fmt: skip
DIRECTIVES = [
    ("```{note}\nDo *not* go.\n```", ["Do not go."], ["{note}", "*"]),
    ("```{note} T\nThe last line.", ["T", "The last line."], ["{note}"]),
    ("```{figure} img/a.png\n---\nwidth: 3\n---\nThe **caption**.\n```", ["The caption."], ["img/", "width", "*"]),
    ("Text.\n\n```{toctree}\n:maxdepth: 2\n\nintro\nusage\n```", ["Text."], ["intro", "toctree", "maxdepth"]),
    ("```{eval-rst}\n.. note:: In *rst*.\n```", ["In rst."], ["..", "*"]),
    ("By {pep}`508` and :rfc:`2119`.", ["By PEP 508 and RFC 2119."], ["{", "`"]),
    ('```js title="src/a.js" {1,3-5} showLineNumbers\nlet a\n```', ["src/a.js", "let a"], ["{1", "showLine"]),
    ("```{grid-item-card} Card **title**\n:link: x\nBody ^^^\n```", ["Card title", "Body"], [":link:"]),
]  # fmt: skip
TAGS = [
    ('{{< tabs "uid" >}}\n{{< tab "MacOS X" >}}\n# On a Mac\n{{< /tab >}}\n{{< /tabs >}}',
     ["MacOS X", "On a Mac"], ["{{", "uid"]),
    ('See [the page]({{< ref "a/b.md" >}}) and [more]({{< relref "c" >}}#d).',
     ["See the page and more."], ["{{", "(", "["]),
    ("```md\n{{< note >}}\n{{</* escaped */>}}\n```", ["{{< note >}}", "{{< escaped >}}"], ["/*"]),
    ("{% include a.html %}\n\nText {{ page.var }} here.{% if x %} More.{% endif %}", ["Text", "here.", "More."], ["{"]),
    ('{% include callout.html content="Shown words" type="info" %}', ["Shown words"], ["{%", "callout", "info"]),
    ("{% highlight ruby linenos %}\ndef a_b\n  {{ x }}\nend\n{% endhighlight %}\n\nAfter.",
     ["def a_b\n  {{ x }}\nend", "After."], ["{%", "linenos"]),
    ("{% comment %}\nsecret\n\nmore\n{% endcomment %}\n\nText.", ["Text."], ["secret", "more", "{%"]),
    ("{# a comment #}\n\nText {# another #}stays.", ["Text stays."], ["comment", "another"]),
    ("{% note %}\n\n**Note:** Careful.\n\n{% endnote %}", ["Note: Careful."], ["{%", "**"]),
    ("Text.\n\n```rust\n{{#include a.rs:3:5}}\n```\n\n{{#include b.md}}", ["Text."], ["{{", "a.rs", "b.md"]),
    ("Text.\n\n<!-- a\n\nb -->\n\n[//]: # (comment)\n[comment]: <> (other)\n\nMore.",
     ["Text.", "More."], ["comment", "a\n"]),
    ('[home]({{ site.baseurl }}/index.html) and <a href="{{ x }}">y</a>', ["home and y"], ["{{"]),
    ('{% code title="index.js" lineNumbers="true" %}\n```js\nlet a\n```\n{% endcode %}',
     ["index.js", "let a"], ["{%", "lineN"]),
]  # fmt: skip
INLINE = [
    ("Costs $5 and then $6, but $a_1 * b_2$ is math: $$c*d*e$$.",
     ["Costs $5 and then $6, but a_1 * b_2 is math", "c*d*e"], ["$a"]),
    ("See [[Page]], [[Page#Part|the part]] and ![[note]] ![[a.png|300]].",
     ["See Page, the part and note"], ["[", "|", "300"]),
    (":tada: done :material-check: :+1: at 10:30:45, a:b:c :unknown:",
     ["🎉 done", "👍 at 10:30:45, a:b:c :unknown:"], ["material", "tada"]),
    ("Text.\n{: .note #id }\n\nA [span]{.small} and {braces} in f{x}.",
     ["Text.", "A span and {braces} in f{x}."], [".note"]),
    ("# A\n\nOne[^a].\n\n# B\n\nTwo^[an aside].\n\n[^a]: Said **there**.\n\n    More of it.",
     ["A\nOne[a].\n\n[a] Said there.\n\nMore of it.", "B\nTwo [an aside]."], ["[^", "**"]),
    ("==Marked `a==b` *words*== and H~2~O, x^2^; `==a==`, `b~c~` and $y^2^$ stay: if a==b==c.",
     ["Marked a==b words and H2O, x2; ==a==, b~c~ and y^2^ stay: if a==b==c."], ["*"]),
    ("[TOC]\n\n[[toc]]\n\nText.", ["Text."], ["TOC", "toc"]),
    ("Apple\n:   A fruit.\n\nOrange\n:   Another.\n", ["Apple", "A fruit.", "Orange", "Another."], ["\n:", ":  "]),
    ("1. [x] done\n2. [ ] open\n\n* [X] more\n* [link](a)", ["done", "open", "more", "link"], ["[x]", "[ ]", "[X]"]),
    ("| a | b |\n|---|---|\n| x \\| y | `p` |\n| `a \\| b` | z |", ["x | y | p", "a | b | z"], ["\\"]),
    ('<details markdown="1">\n<summary>Open *me*</summary>\n\n**Bold** text.\n\n</details>',
     ["Open", "Bold text."], ["**"]),
    ("x = ~y and z ~ w; ~/a:~/b; ~5-~10 and http://x/~a/~b; 5^2 and ^ alone",
     ["x = ~y and z ~ w; ~/a:~/b; ~5-~10 and http://x/~a/~b; 5^2 and ^ alone"], []),
    ('![Image](a.png){: style="width:3px"} Text [link](b){target=_blank rel=noopener}',
     ["Text link"], ["{", "style", "target"]),
    ('<div markdown="block">\n\n## Head\n\n**x**\n\n</div>\n\n<p align="center">\n  <b>raw</b> *kept*\n</p>',
     ["Head", "x", "raw *kept*"], ["**"]),
    ("Text <!-- c --> more\n\n%% c2 %%\n\n100%% sure %%", ["Text more", "100%% sure"], ["c2"]),
]  # fmt: skip
MDX = [
    ("import A from './a';\nimport {\n  B,\n  C,\n} from 'b';\nexport const meta = {\n\n  title: 'x',\n};\n\n"
     "# T\n\nText.",
     ["T", "Text."], ["import", "meta", "title", "}"]),
    ("Text {/* hidden */}stays {props.x}{' '}with {\"words\"}.\n\n{/*\n hidden\n\n too */}\n\nEnd.",
     ["Text stays", "with words.", "End."], ["hidden", "props", "{"]),
    ("<div className=\"row\" style={{color: 'red'}}>\n  **Bold** in a div.\n</div>",
     ["Bold in a div."], ["**", "red", "{"]),
    ("<Chart\n  data={[\n    {x: 1, label: 'Shown'},\n\n    {x: 2},\n  ]}\n/>\n\nText <br/> more.",
     ["Shown", "Text", "more."], ["data", "x: 1"]),
    ("<Tabs items={['npm', 'yarn']}>\n<Tab>npm i</Tab>\n</Tabs>", ["npm, yarn", "npm i"], ["items", "<"]),
    ("## Head {/* #my-id */}\n\nText.\n\n```jsx\n<Tabs>{x}</Tabs>\nimport a from 'b'\n```",
     ["Head", "Text.", "<Tabs>{x}</Tabs>\nimport a from 'b'"], ["my-id"]),
    ('- item <Badge text="new" />\n- `<Badge/>` and `{x}`', ["- item new", "- <Badge/> and {x}"], []),
]  # fmt: skip


RESTRUCTURED = [  # with what Sphinx adds
    (".. tabs::\n\n   .. group-tab:: Linux\n\n      Run *apt*.\n\n   .. tab:: Mac\n\n      Run brew.",
     ["Linux", "Run apt.", "Mac", "Run brew."], ["tab", "*"]),
    (".. code-block:: python\n   :caption: main.py\n   :linenos:\n\n   x = 1", ["main.py", "x = 1"], ["linenos"]),
    ("Text :myrole:`shown <x>` and `back`:other: and :py:meth:`~a.b`.", ["Text shown and back and b."], [":", "`"]),
    ("Text.\n\n.. toctree::\n   :maxdepth: 2\n\n   intro\n\n.. index:: a; b\n\nMore.",
     ["Text.", "More."], ["intro", "a; b"]),
    (".. note:: Short.\n\n.. warning::\n\n   Long *one*.\n\n.. custom-box::\n\n   Boxed.",
     ["Short.", "Long one.", "Boxed."], ["custom"]),
]  # fmt: skip
ALL = [(markdown.read, *row) for row in BOXES + DIRECTIVES + TAGS + INLINE]
ALL += [(markdown.read_mdx, *row) for row in MDX] + [(restructured.read, *row) for row in RESTRUCTURED]


@pytest.mark.parametrize(("read", "text", "shown", "gone"), ALL)
def test_marks_of_dialects(
    read: Callable[[bytes, None], Extraction], text: str, shown: list[str], gone: list[str]
) -> None:
    sections = read(text.encode(), None).sections
    found = "\n".join(f"{' > '.join(section.path)}\n{section.text}" for section in sections)
    place = 0
    for words in shown:
        assert words in found[place:], found
        place = found.index(words, place) + len(words)
    assert not [mark for mark in gone if mark in found], found


@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        ("## Setup {#setup-guide}\n\nText.", ["setup-guide"]),
        ("## Setup\n{: #kram}\n\nText.", ["kram"]),
        ("## Setup {/* #docusaurus */}\n\nText.", ["docusaurus"]),
        ("## Use `{#x}`\n\nText.\n\n## A {b}\n\nText.", ["use-x", "a-b"]),
    ],
)  # fmt: skip
def test_ids_of_headings(text: str, anchors: list[str]) -> None:
    assert [section.anchor for section in markdown.read(text.encode(), None).sections] == anchors


@pytest.mark.parametrize(
    ("front", "title", "date", "metadata"),
    [
        ('+++\ntitle = "T"\ndate = 2024-01-02\ntags = ["a", "b"]\n+++', "T", "2024-01-02", {"tags": ("a", "b")}),
        ("+++\ntitle = 'T'\nlastmod = 2024-01-02T10:00:00Z\ndraft = true\nweight = 3\n[params]\nx = 1\n+++", "T",
         "2024-01-02", {"draft": ("true",), "weight": ("3",)}),
        ("---\ntitle: T\ndate: 2024-01-02\ntags: [a]\n---", "T", "2024-01-02", {"tags": ("a",)}),
        ('{\n  "title": "T",\n  "date": "2024-01-02"\n}', "T", "2024-01-02", {}),
    ],
)  # fmt: skip
def test_front_matter(front: str, title: str, date: str, metadata: dict[str, tuple[str, ...]]) -> None:
    found = markdown.read(f"{front}\n\nText.\n".encode(), None)
    assert (found.title, found.declared.date, found.declared.metadata) == (title, date, metadata)
    assert [section.text for section in found.sections] == ["Text."]


def test_what_is_left_out_is_noted() -> None:
    reader_notes.take()
    markdown.read(b'--8<-- "a.md"\n\n```{toctree}\na\n```', None)
    assert reader_notes.take() == ("a file that Markdown includes was left out", "a directive was left out: toctree")
    restructured.read(b"Text.\n\n.. toctree::\n\n   intro\n", None)
    assert reader_notes.take() == ("a directive was left out: toctree",)

"""What single dialects of Markdown add, five inputs a kind: the words that a reader sees stay, the marks go."""

import pytest

from indexer.read.markup import markdown

# text, words that are read in this order, marks that are not
FIELDS = [  # of components
    ('<Property name="depth" type="number" unit="metre" required>\nHow deep it is.\n</Property>',
     ["depth, number, unit: metre, required", "How deep it is."], ["<", "="]),
    ('<Argument header="X-Harbour" type="string" default="north" deprecated />',
     ["X-Harbour, string, default: north, deprecated"], ["/"]),
    ("<TypeTable type={{\n  berth: {\n    description: 'Number of the berth',\n    type: 'number',\n    default: 7,\n"
     "  },\n  quay: {\n    type: '\"east\" | \"west\"',\n  },\n}} />",
     ["berth", "Number of the berth", "number", "default: 7"], ["{", "TypeTable"]),
    ('<SchemaItem collapsible={false} name={"tide"} required={true} schemaName={"integer"} '
     'schema={{"type":"integer","description":"Height of the tide"}}></SchemaItem>',
     ["tide, required, schemaName: integer, integer, Height of the tide"], ["false", "collapsible"]),
    ('<Fields>\n<Field id="f1" type="Date" name="eta" class="wide blue">Hours.</Field>\n</Fields>',
     ["Date, eta", "Hours."], ["f1", "wide"]),
]  # fmt: skip
COMPONENTS = [  # that nobody knows
    ('<Harbour tagline="The quietest place on the coast" className="flex items-center gap-2">\n\nBoats.\n\n</Harbour>',
     ["The quietest place on the coast", "Boats."], ["flex", "tagline"]),
    ('<Pier icon="anchor" name="North pier" href="/north" />\n\n<StarIcon name="star" title="x" />\n\nEnd.',
     ["North pier", "End."], ["anchor", "star", "/north"]),
    ('<Plan d="M10 20 L30 40 Z" note="Closed from May to June." size="large" />', ["Closed from May to June."],
     ["M10", "large"]),
    ("<Buoy\n  label={'Green buoy'}\n  position={{ lat: 54.1, lon: 10.2 }}\n  onClick={() => ring()}\n>\n  Bell.\n"
     "</Buoy>",
     ["Green buoy", "Bell."], ["54", "ring"]),
    ('<Folder name="docks">\n<File name="pier.ts" />\n</Folder>\n\n<Badge variant="tip" text="new" />',
     ["docks", "pier.ts", "new"], ["tip", "variant"]),
    ('<Endpoint method="get" path="/tides/{port}" />\n\n<Copy path="/a/b.md" />'
     '\n\n::include{file=x.md}\n\n[[_TOSP_]] End.',
     ["/tides/{port}", "End."], ["b.md", "x.md", "include", "TOSP"]),
    ('<Aside type="caution" title="Swell">Mind it.</Aside>\n\n<Frame caption="The gauge"><img src="a.png" /></Frame>',
     ["Swell Mind it.", "The gauge"], ["caution", "a.png"]),
]  # fmt: skip
DIRECTIVES = [  # that nobody knows
    (":::mooring{#m .wide} Tie up\nTwo ropes.\n:::", ["Tie up", "Two ropes."], [":::", "wide", "mooring"]),
    (":::mooring[Tie *up* well]{.wide}\nTwo ropes.\n:::", ["Tie up well", "Two ropes."], [":::", "wide", "mooring"]),
    ('{% anchorage title="Where to lie" depth="3" %}\nSand.\n{% endanchorage %}', ["Where to lie", "Sand."],
     ["%", "depth"]),
    ("!!! ebb inline end \"When it *falls*\"\n\n    Wait.\n\n    - Six hours.",
     ["When it falls", "Wait.", "- Six hours."],
     ["!!!", "inline"]),
    ('{{< lantern "Red to port" >}}\nGreen is right.\n{{< /lantern >}}', ["Red to port", "Green is right."],
     ["{{", "lantern"]),
    ('{{ picture(src="a.png", caption="The well of the gauge") }}\n\n## Depth :id=depth\n\nDeep.',
     ["The well of the gauge", "Depth\nDeep."], ["{{", "a.png", ":id"]),
    ("> [!SQUALL|red]- Wind *rises*\n> Reef.\n\n- item\n\n  > [!FOG]\n  > Ring.",
     ["Wind rises", "Reef.", "item", "Fog", "Ring."], ["[!", "red"]),
]  # fmt: skip
LEARN = [  # DocFX and Microsoft Learn
    ("Before.\n\n[!INCLUDE [prerequisites](../includes/pre.md)]\n\n[!code-csharp[Main](Program.cs#L3 \"Sample\")]\n\n"
     "After.",
     ["Before.", "After."], ["[!", "prereq", "Program"]),
    ("See <xref:System.IO.Stream.Read*?displayProperty=nameWithType>, <xref:Stream.Flush%2A> and [pipes](xref:pipes).",
     ["See System.IO.Stream.Read*, Stream.Flush* and pipes."], ["xref", "display"]),
    ("## Install\n\n# [Linux](#tab/linux)\n\nUse apt.\n\n# [macOS](#tab/mac)\n\nUse brew.\n\n---\n\n## Next\n\nEnd.",
     ["Install", "Linux", "Use apt.", "macOS", "Use brew.", "Next", "End."], ["#tab", "---"]),
    (":::row:::\n:::column span=\"2\":::\nLeft.\n:::column-end:::\n:::row-end:::\n\n"
     ":::image type=\"content\" source=\"a.png\" alt-text=\"Map of the whole harbour.\":::",
     ["Left.", "Map of the whole harbour."], [":::", "span", "a.png", "content"]),
    ("> [!div class=\"nextstepaction\"]\n> [Moor the boat](moor.md) now\n\n> [!VIDEO https://example.org/v]\n\n"
     "Click [!UICONTROL Save].",
     ["Moor the boat now", "Click Save."], ["[!", "nextstep", "example.org"]),
]  # fmt: skip
KRAMDOWN = [
    ("1. Contents here\n{:toc max_level=\"2\"}\n\n# A\n\nText.", ["A", "Text."], ["Contents", "toc"]),
    ("Text {::comment}not *this*{:/} stays.\n\n{::comment}\n\n- hidden\n\n{:/comment}\n\nEnd.",
     ["Text stays.", "End."], ["this", "hidden", "{:"]),
    ("The *AIS* is on.\n\n*[AIS]: Automatic Identification System\n*[VHF]: Very high frequency",
     ["The AIS is on.", "AIS: Automatic Identification System", "VHF: Very high frequency"], ["*["]),
    ("{:note: .box title=\"x\"}\n\n> Quoted.\n{:note}\n\n{::options parse_block_html=\"true\" /}\n\nEnd.",
     ["Quoted.", "End."],
     ["{:", "options", "box"]),
    ("## Light {:.no_toc}\n\n{::nomarkdown}\n<b>raw</b>\n{:/nomarkdown}\n\n- a\n{: .list}\n- b",
     ["Light", "raw", "- a", "- b"], ["{:"]),
]  # fmt: skip
LOGSEQ = [  # and Obsidian
    ("title:: Tide tables\ntags:: sea, moon\nid:: 64f1c2aa-1234-4bcd-9a00-0123456789ab\n\n- High water ^hw-1\n"
     "  collapsed:: true\n  moon:: full",
     ["title: Tide tables", "tags: sea, moon", "High water", "moon: full"], ["::", "64f1", "collapsed", "^"]),
    ("- DONE Oil ((6433f8e2-3d5c-4b8b-9f3e-0a1b2c3d4e5f)) twice\n  :LOGBOOK:\n  CLOCK: [2026-01-02 Fri]\n  :END:",
     ["DONE Oil twice"], ["((", "LOGBOOK", "CLOCK", "END"]),
    ("- #+BEGIN_IMPORTANT\n  Mind the ebb.\n  #+END_IMPORTANT", ["Mind the ebb."], ["#+", "BEGIN"]),
    ("- A block\n  logseq.order-list-type:: number\n  source:: The old pilot book",
     ["A block", "source: The old pilot book"],
     ["order-list"]),
    ("A paragraph. ^37066d\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n^tab1\n\n"
     "x ^2 and [[Note#^37066d|that]] [[Log#^a1b2]].",
     ["A paragraph.", "1 | 2", "x ^2 and that Log."], ["37066d", "tab1"]),
    ("std::vector is a type:: of C++.\n\nnamespace a::b; `k:: v` stays",
     ["std::vector is a type:: of C++.", "a::b; k:: v stays"], []),
]  # fmt: skip
README = [  # blocks of JSON
    ('[block:api-header]\n{\n  "title": "Ebb and flow"\n}\n[/block]\nText.\n[block:code]\n{"codes": [{"code": "a()\\n'
     'b()", '
     '"language": "js", "name": "Node"}, {"code": "c", "language": "text"}]}\n[/block]',
     ["Ebb and flow", "Text.", "Node", "a()\nb()", "c"], ["[block", "codes", '"']),
    ('[block:parameters]\n'
     '{"data": {"0-1": "**12** m", "h-0": "Berth", "h-1": "Length", "1-0": "B", "1-1": "9 m", "0-0": "A"}, '
     '"cols": 2, "rows": 2}\n[/block]', ["Berth", "Length", "A", "12 m", "B", "9 m"], ["h-0", "**"]),
    ('[block:image]\n{"images": [{"image": ["https://x/a.png", "a.png", 3], "caption": "The *old* mole"}]}\n'
     '[/block]\n\nEnd.',
     ["The old mole", "End."], ["a.png", "*"]),
    ('[block:callout]\n{"type": "info", "title": "Note", "body": "- one\\n- two"}\n[/block]',
     ["Note", "- one", "- two"],
     ["info", "\\n"]),
    ('[block:html]\n{"html": "<div><p>Raw words</p></div>"}\n[/block]\n[block:oops]\n{"a": \n[/block]\n\n'
     'As <<user>> of a <<glossary:port>>.',
     ["Raw words", "As user of a port."], ["<div", "<<"]),
]  # fmt: skip
PYMDOWN = [  # keys, critic marks and what else stands within a line
    ("Press ++ctrl+shift+p++, then ++\"Any Key\"++ or ++page-up++.",
     ["Press Ctrl+Shift+P, then Any Key or Page Up."], ["++"]),
    ("C++ and g++ and i++ + ++j stay.", ["C++ and g++ and i++ + ++j stay."], []),
    ("It is {++now++}{--then--} {~~bad~>good~~}{>>why?<<} and {==*bright*==}.", ["It is now good and bright."],
     ["then", "bad", "why", "{"]),
    ("An ^^added^^ word, x^2^ and ++two words++ here.", ["An added word, x2 and two words here."], ["^", "++"]),
]  # fmt: skip
CODE = [  # notes to highlighters, options of cells
    ("```ts\nlet a = 1 // [!code --]\nlet b = 2 // [!code ++]\n// [!code focus:3]\nc()\n```",
     ["let a = 1\nlet b = 2\nc()"],
     ["[!code", "//"]),
    ("```jsx\n<a>\n  {/* highlight-next-line */}\n  <b/> // highlight-line\n</a>\n```", ["<a>\n  <b/>\n</a>"],
     ["highlight"]),
    ("```yaml\n# highlight-start\na: 1 # (1)!\n# highlight-end\nb: 2 # kept\n```", ["a: 1\nb: 2 # kept"],
     ["highlight", "(1)"]),
    ("```{r}\n#| label: fig-tide\n#| fig-cap: \"Height of the tide\"\n#| echo: false\nplot(tide)\n```",
     ["plot(tide)"], ["echo", "label"]),
    ("```html\n<i></i> <!-- [!code highlight] -->\n<u></u>\n```\n\n```{=html}\n<p>Raw words</p>\n```",
     ["<i></i>\n<u></u>", "Raw words"], ["[!code", "<p>"]),
]  # fmt: skip
COMMENTS = [  # of MyST; separators
    ("% a comment\n% more of it\n\nText of 5\n% and more.", ["Text of 5 % and more."], ["comment"]),
    ("# A\n\n+++ {\"tags\": [\"x\"]}\n\nText.\n\n% last", ["A", "Text."], ["+++", "tags", "last"]),
    ("(sec-a)=\n# A\n\n100 % sure\n\n- % in an item\n- b", ["A", "100 % sure", "- b"], ["(sec", "in an item"]),
    ("```{confval} depth\n:type: int\n:class: x\nDeep.\n```\n\n```{code-block} sh\n:caption: a.sh\nls\n```",
     ["depth", "Type: int", "Deep.", "a.sh", "ls"], [":type", "class", ":caption"]),
    (":::{card} Pilot\nTop\n^^^\nBody\n+++\nFoot\n:::", ["Pilot", "Top", "Body", "Foot"], ["^^^", "+++", ":::"]),
    ("```{eval-rst}\n.. note:: In *rst*.\n```\n\nAfter the block there is text.", ["In rst.", "After the block"],
     ["*"]),
]  # fmt: skip
GRIDS = [  # grid tables of Pandoc
    ("+------+---------+\n| Port | Depth   |\n+======+=========+\n| Kiel | *12* m  |\n+------+---------+\n",
     ["Port | Depth", "Kiel | 12 m"], ["+", "*"]),
    ("+:-----+:-:+\n| a    | b |\n+------+---+\n| c    | d |\n+------+---+\n\nAfter.", ["a | b", "c | d", "After."],
     ["+", "-"]),
    ("+---+---+\n| a long | b |\n+---+---+\n\nBroken ones stay text.", ["a long", "Broken ones stay text."], []),
    ("+-----+-----+\n| a   | - x |\n|     | - y |\n+-----+-----+\n| both      |\n+-----------+\n",
     ["a", "x", "y", "both"], ["+"]),
    ("+---+---+\n| H | I |\n+===+===+\n| a | b |\n+===+===+\n| f | g |\n+===+===+\n", ["H | I", "a | b", "f | g"],
     ["=", "+"]),
]  # fmt: skip
FRONT = [  # what is front matter, and which brackets are links of a wiki
    ("---\nA line of text.\n---\n\nMore.", ["A line of text.", "More."], ["---"]),
    ("---\n- a\n- b\n---\n\nMore.", ["- a", "- b", "More."], ["---"]),
    ("---\ntitle: Part 1: Kiel\n---\n\nMore.", ["More."], ["Part"]),
    ("See [[Kiel]] and [[Port *x*]] and [[[a]]].\n\n[kiel]: /kiel\n[port *x*]: /port",
     ["See [Kiel] and [Port x] and [[[a]]]."], ["/kiel"]),
    ("---\n\nNote: a rule above.\n\n---\n\nAnd below: [[Page]].", ["Note: a rule above.", "And below: Page."], ["---"]),
]  # fmt: skip
KINDS = {
    "fields": FIELDS, "components": COMPONENTS, "directives": DIRECTIVES, "learn": LEARN, "kramdown": KRAMDOWN,
    "logseq": LOGSEQ, "readme": README, "pymdown": PYMDOWN, "code": CODE, "comments": COMMENTS, "grids": GRIDS,
    "front": FRONT,
}  # fmt: skip
MDX = ("fields", "components")


@pytest.mark.parametrize(
    ("is_mdx", "text", "shown", "gone"), [(kind in MDX, *row) for kind, rows in KINDS.items() for row in rows]
)
def test_words_stay_and_marks_go(is_mdx: bool, text: str, shown: list[str], gone: list[str]) -> None:
    sections = markdown.read(text.encode(), None, is_mdx=is_mdx).sections
    result = "\n".join(f"{' > '.join(section.path)}\n{section.text}" for section in sections)
    place = 0
    for words in shown:
        assert words in result[place:], result
        place = result.index(words, place) + len(words)
    assert not [mark for mark in gone if mark in result], result


@pytest.mark.parametrize(
    "fields",
    [
        '{"images": 5, "codes": [1, {}], "data": [1]}',
        '{"level": 1000000000, "title": 3}',
        "[1]",
        '{"data": {"h-0": null}}',
    ],
)
def test_blocks_of_odd_json(fields: str) -> None:
    sections = markdown.read(f"Before.\n\n[block:x]\n{fields}\n[/block]\n\nAfter.".encode(), None).sections
    text = "\n".join(section.text for section in sections)
    assert "Before." in text
    assert "After." in text

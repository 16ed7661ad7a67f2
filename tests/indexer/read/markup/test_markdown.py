"""Dialects of Markdown: what a reader of each sees is read, its marks are not."""

import pytest

from indexer import notes
from indexer.read.markup import markdown, mdx
from indexer.records import Extraction


def sections_of(found: Extraction) -> str:
    return "\n".join(f"{' > '.join(section.path)}\n{section.text}" for section in found.sections)


def read(text: str) -> str:
    """Text of a document, with the paths of its sections."""
    return sections_of(markdown.read(text.encode(), None))


def has_in_order(text: str, words: list[str]) -> bool:
    place = 0
    for word in words:
        place = text.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


# text, what is read in this order, what is not
BOXES = [
    ('!!! note "Be quick, don\'t"\n\n    Feed **them**.\n\nAfter.',
     ["Be quick", "Feed them.", "After."], ["!!!", "**", "note"]),
    ("??? tip\n    - one\n    - two\n\nAfter.", ["Tip", "- one", "- two", "After."], ["???"]),
    ('???+ danger inline end "Hot"\n\n    ```sh\n    rm x\n    ```\n', ["Hot", "rm x"], ["???", "inline", "```"]),
    ('- item\n\n    !!! warning "W"\n\n        Within.\n\n- next', ["item", "W", "Within.", "next"], ["!!!"]),
    ('!!! note ""\n    Without a title.\n', ["Without a title."], ["!!!", '"']),
    (":::note Mind *this*\n\nText.\n\n:::\n\nAfter.", ["Mind this", "Text.", "After."], [":::", "*"]),
    (":::tip[With `code`]\nText.\n:::", ["With code", "Text."], [":::", "["]),
    ("::: details Click me {open}\nHidden **not**.\n:::", ["Click me", "Hidden not."], [":::", "{", "details"]),
    ("::::: a\n:::: b T\ntext\n::::\n:::::", ["T", "text"], ["::"]),
    ('::: {.callout-note title="Quarto box"}\nText.\n:::', ["Quarto box", "Text."], [":::", "callout"]),
    (':::image type="content" source="a.png" alt-text="Screenshot of it":::\n\nText.',
     ["Screenshot of it", "Text."], [":::", "a.png"]),
    (":::{admonition} My title\n:class: tip\nText with {ref}`a <b>`.\n:::",
     ["My title", "Text with a."], [":::", ":class:", "{"]),
    (":::{code-block} python\nx = '{ref}`a`'\n:::\n\nAfter.", ["x = '{ref}`a`'", "After."], [":::"]),
    ("/// tab | Linux\n\nRun apt.\n\n///\n", ["Linux", "Run apt."], ["///"]),
    ("> [!NOTE]\n> Useful **words**.", ["Note", "Useful words."], ["[!", "**"]),
    ("> [!tip]- Folded title\n> Inner text.", ["Folded title", "Inner text."], ["[!", "tip"]),
    ("> [!IMPORTANT]\n>\n> - a\n> - b", ["Important", "- a", "- b"], ["[!"]),
    ('=== "Python"\n\n    ```python\n    print()\n    ```\n\n=== "Go"\n\n    Use `go`.\n',
     ["Python", "print()", "Go", "Use go."], ["===", "```"]),
    ("::: code-group\n\n```sh [npm]\nnpm i x\n```\n\n```sh{1} [yarn]\nyarn add x\n```\n\n:::",
     ["npm", "npm i x", "yarn", "yarn add x"], [":::", "[", "{"]),
    (":::: tabs\n::: tab First\nOne.\n:::\n::: tab Second\nTwo.\n:::\n::::",
     ["First", "One.", "Second", "Two."], [":"]),
    ("::: tabs\n@tab npm\nnpm text\n@tab:active yarn\nyarn text\n:::", ["npm", "npm text", "yarn", "yarn text"], ["@"]),
    ('!!! info "Q: *why*?"\n\n    Because.\n\n    !!! tip\n        Nested.\n\nOut.',
     ["Q: why?", "Because.", "Tip", "Nested.", "Out."], ["!!!", "*"]),
    ('!!! abstract annotate "Summary"\n    Text (1)\n{ .annotate }\n', ["Summary", "Text (1)"], ["annotate"]),
    ("!!! see-also custom\n    Text.\n", ["Text."], ["!!!"]),
    ('??? question "How?"\n\n    | a | b |\n    |---|---|\n    | 1 | 2 |\n',
     ["How?", "a | b", "1 | 2"], ["???", "---"]),
    (":::danger\n\nStop **now**.\n\n:::\n", ["Stop now."], [":::", "**"]),
    (":::info Some title {#id}\n- a\n- b\n:::\n", ["Some title", "- a", "- b"], [":::", "#id"]),
    ("::: warning\n*here be dragons*\n:::", ["here be dragons"], [":::", "*"]),
    ("::: raw\nText\n:::", ["Text"], [":::", "raw"]),
    (':::: {.columns}\n::: {.column width="40%"}\nLeft\n:::\n::: {.column}\nRight\n:::\n::::',
     ["Left", "Right"], [":", "width"]),
    ("::: {.panel-tabset}\n## R\n\nr text\n\n## Python\n\npy text\n:::",
     ["R", "r text", "Python", "py text"], [":::", "tabset"]),
    (':::moniker range="azure"\nText.\n:::moniker-end', ["Text."], [":::", "azure"]),
    ('::: zone pivot="cli"\n\nText.\n\n::: zone-end', ["Text."], [":::", "pivot"]),
    (":::row:::\n:::column:::\nCell.\n:::column-end:::\n:::row-end:::", ["Cell."], [":::", "column"]),
    ("1. Step\n\n   :::note\n   In a step.\n   :::\n\n2. Next", ["Step", "In a step.", "Next"], [":::"]),
    ("> [!CAUTION]\n> One.\n>\n> Two.\n\nAfter", ["Caution", "One.", "Two.", "After"], ["[!"]),
    ("> [!faq]+ Are callouts *foldable*?\n> Yes!\n> > [!todo]\n> > Nested",
     ["Are callouts foldable?", "Yes!", "Todo", "Nested"], ["[!", "*"]),
    ("> [!quote] ||| x\n> y", ["y"], ["[!"]),
    ("> [!NOTE] This is on one line.", ["This is on one line."], ["[!"]),
    ('=== "C++"\n    Use g++.\n=== "C#"\n    Use dotnet.\n', ["C++", "Use g++.", "C#", "Use dotnet."], ["==="]),
    ('- a\n\n    === "Tab 1"\n\n        one\n\n    === "Tab 2"\n\n        two\n',
     ["a", "Tab 1", "one", "Tab 2", "two"], ["==="]),
    ("```bash {3} [terminal]\nls\n```", ["terminal", "ls"], ["{3}"]),
    ("/// details | Open this\n    type: warning\n\nInside.\n///", ["Open this", "Inside."], ["///"]),
    ("/// admonition | A **t**\nInside.\n///", ["A t", "Inside."], ["///"]),
]  # fmt: skip
DIRECTIVES = [
    ("```{note}\nDo *not* go.\n```", ["Do not go."], ["{note}", "*"]),
    ("````{tip} A title\n```{warning}\nInner.\n```\nOuter.\n````", ["A title", "Inner.", "Outer."], ["{", "`"]),
    ("```{code-block} python\n:linenos:\n\nx = 1\n```", ["x = 1"], ["linenos", "{"]),
    ("```{figure} img/a.png\n---\nwidth: 3\n---\nThe **caption**.\n```", ["The caption."], ["img/", "width", "*"]),
    ("Text.\n\n```{toctree}\n:maxdepth: 2\n\nintro\nusage\n```", ["Text."], ["intro", "toctree", "maxdepth"]),
    ("```{eval-rst}\n.. note:: In *rst*.\n```", ["In rst."], ["..", "*"]),
    ("```{math}\na^2 + b_1\n```", ["a^2 + b_1"], ["{math}"]),
    ("(here)=\n## A heading\n\nSee {doc}`guide <g>`, {py:func}`~os.path.join` and {kbd}`Ctrl`.",
     ["A heading", "See guide, join and Ctrl."], ["(here)=", "{", "~"]),
    ("By {pep}`508` and :rfc:`2119`.", ["By PEP 508 and RFC 2119."], ["{", "`"]),
    ("See :ref:`the part <x>` and :class:`Cat`.", ["See the part and Cat."], [":ref:", "`"]),
    ("```{r setup, echo=FALSE}\nx <- 1\n```", ["x <- 1"], ["{r", "echo"]),
    ('``` {.python title="a.py" hl_lines="2"}\nx = 1\n```', ["a.py", "x = 1"], ["hl_lines", "{"]),
    ('```js title="src/a.js" {1,3-5} showLineNumbers\nlet a\n```', ["src/a.js", "let a"], ["{1", "showLine"]),
    ("```js:title=src/b.js\nlet b\n```", ["let b"], ["title="]),
    ("::::{tab-set}\n:::{tab-item} Linux\nApt.\n:::\n::::", ["Linux", "Apt."], [":::", "tab-"]),
    ("```{dropdown} Open **me**\n:open:\nInside.\n```", ["Open me", "Inside."], ["{", ":open:", "**"]),
    ("```{admonition} Here's my title\n---\nclass: tip\n---\nHere's *content*.\n```",
     ["Here's my title", "Here's content."], ["class", "*"]),
    ("```{list-table}\n:header-rows: 1\n\n* - Name\n  - Value\n* - a\n  - b\n```",
     ["Name", "Value", "a", "b"], ["header-rows"]),
    ("```{versionadded} 1.2\nThe flag.\n```", ["1.2", "The flag."], ["{"]),
    ("```{image} /img/fun.png\n:alt: fishy\n```\n\nText.", ["Text."], ["fun.png", "{"]),
    ("~~~{hint}\nTilde.\n~~~", ["Tilde."], ["~", "{"]),
    ("```{code-cell} ipython3\n---\ntags: [hide]\n---\nprint(2)\n```", ["print(2)"], ["hide", "{"]),
    ("```{mermaid}\ngraph TD\n```", ["graph TD"], ["{mermaid}"]),
    ("```{include} ../README.md\n```\n\nT", ["T"], ["README"]),
    ("```{grid-item-card} Card **title**\n:link: x\nBody ^^^\n```", ["Card title", "Body"], [":link:"]),
    ("Text {abbr}`MyST (Markedly Structured Text)` and {sub}`2` and {math}`a_b`",
     ["MyST (Markedly Structured Text)", "2", "a_b"], ["{"]),
    ("(label-1)=\n\n# T\n\nText {numref}`Fig %s <f>` x {term}`~a`", ["T", "Text"], ["(label"]),
    ("```{prf:theorem} Gauss\n:label: x\nIt holds.\n```", ["Gauss", "It holds."], ["label", "{"]),
    ('```python hl_lines="1 2" linenums="1" title="main.py"\nimport os\n```', ["main.py", "import os"], ["hl_lines"]),
    ('```yaml linenums="1"\na: 1\n```', ["a: 1"], ["linenums"]),
    ("``` yaml { .annotate }\na: 1 # (1)!\n```", ["a: 1 # (1)!"], ["annotate"]),
    ("```{.bash .copy}\nls -l\n```", ["ls -l"], ["copy"]),
    ("```rust,ignore\nfn main(){}\n```", ["fn main(){}"], ["ignore"]),
    ('```tsx filename="app/page.tsx" switcher\nexport default 1\n```',
     ["app/page.tsx", "export default 1"], ["switcher"]),
    ("```{python}\n#| echo: false\nx=1\n```", ["x=1"], ["{python}"]),
    (':::{figure-md} fig-target\n<img src="a.png" alt="fishy">\n\nThis is a caption\n:::',
     ["This is a caption"], [":::"]),
    ("```{glossary}\nterm\n  Definition.\n```", ["term", "Definition."], ["{"]),
]  # fmt: skip
TAGS = [
    ("{{< note >}}\nDo it.\n{{< /note >}}", ["Do it."], ["{{", "note"]),
    ('{{< tabs "uid" >}}\n{{< tab "MacOS X" >}}\n# On a Mac\n{{< /tab >}}\n{{< /tabs >}}',
     ["MacOS X", "On a Mac"], ["{{", "uid"]),
    ('{{% details title="Click me" open=true %}}\nInside.\n{{% /details %}}', ["Click me", "Inside."], ["{{", "open"]),
    ('{{< figure src="a.png"\n  caption="What it *shows*"\n>}}\n\nText.',
     ["What it", "shows", "Text."], ["{{", "a.png"]),
    ('See [the page]({{< ref "a/b.md" >}}) and [more]({{< relref "c" >}}#d).',
     ["See the page and more."], ["{{", "(", "["]),
    ("```md\n{{< note >}}\n{{</* escaped */>}}\n```", ["{{< note >}}", "{{< escaped >}}"], ["/*"]),
    ("Write `{{< note >}}` or `{% include x %}` there.", ["Write {{< note >}} or {% include x %} there."], []),
    ("{% include a.html %}\n\nText {{ page.var }} here.{% if x %} More.{% endif %}", ["Text", "here.", "More."], ["{"]),
    ('{% include callout.html content="Shown words" type="info" %}', ["Shown words"], ["{%", "callout", "info"]),
    ("Write {% raw %}{{ name }}{% endraw %} there.", ["Write {{ name }} there."], ["raw", "{%"]),
    ("{% highlight ruby linenos %}\ndef a_b\n  {{ x }}\nend\n{% endhighlight %}\n\nAfter.",
     ["def a_b\n  {{ x }}\nend", "After."], ["{%", "linenos"]),
    ('{{< highlight go "linenos=1" >}}\nfunc main() {}\n{{< /highlight >}}', ["func main() {}"], ["{{", "linenos"]),
    ("{% comment %}\nsecret\n\nmore\n{% endcomment %}\n\nText.", ["Text."], ["secret", "more", "{%"]),
    ("[the post]({% post_url 2020-01-01-a %}) and ![x]({{ '/a.png' | relative_url }})!",
     ["the post and x!"], ["{", "("]),
    ("{# a comment #}\n\nText {# another #}stays.", ["Text stays."], ["comment", "another"]),
    ('{% tabs %}\n{% tab title="Linux" %}\nApt.\n{% endtab %}\n{% endtabs %}', ["Linux", "Apt."], ["{%", "tab"]),
    ("{% note %}\n\n**Note:** Careful.\n\n{% endnote %}", ["Note: Careful."], ["{%", "**"]),
    ("Text.\n\n```rust\n{{#include a.rs:3:5}}\n```\n\n{{#include b.md}}", ["Text."], ["{{", "a.rs", "b.md"]),
    ('Text.\n\n--8<-- "inc/a.md"\n\n<<< @/snippets/a.js{2}\n\nMore.', ["Text.", "More."], ["8<", "<<<"]),
    ("Text %% hidden %% stays.\n\n%%\nhidden\n\ntoo\n%%\n\nMore.",
     ["Text", "stays.", "More."], ["hidden", "too", "%%"]),
    ("Text.\n\n<!-- a\n\nb -->\n\n[//]: # (comment)\n[comment]: <> (other)\n\nMore.",
     ["Text.", "More."], ["comment", "a\n"]),
    ("    {{< indented >}}\n\nText.", ["{{< indented >}}", "Text."], []),
    ('{{< alert title="Warning" color="warning" >}}\nThis is *it*.\n{{< /alert >}}',
     ["Warning", "This is it."], ["{{", "color", "*"]),
    ('{{% tab header="**Java**:" lang=java %}}\nx\n{{% /tab %}}', ["Java", "x"], ["{{", "lang"]),
    ('{{< tab name="Default" codelang="bash" >}}\nkubectl\n{{< /tab >}}', ["Default", "kubectl"], ["{{", "codelang"]),
    ("{{< youtube w7Ft2ymGmfc >}}\n\nText", ["Text"], ["w7F", "{{"]),
    ('{{< param "version" >}} is {{< skew currentVersion >}} now', ["is", "now"], ["{{", "version"]),
    ('A {{< glossary_tooltip text="pod" term_id="pod" >}} runs.', ["A pod runs."], ["{{", "term_id"]),
    ("{{/* a comment */}}\n\nText", ["Text"], ["comment"]),
    ('{{<callout "info">}}\nx y\n{{</callout>}}', ["x y"], ["{{", "info"]),
    ('![alt text]({{< static "a.png" >}})\n\nText [a](b "t").', ["Text a."], ["{{", "static"]),
    ('- item {{< badge "New thing" >}}\n- other', ["- item New thing", "- other"], ["{{"]),
    ("{%- if page.x -%}\nA\n{%- else -%}\nB\n{%- endif -%}", ["A", "B"], ["{%"]),
    ("{: .note }\nThis is a callout.\n\n{: .warning-title }\n> Title\n>\n> Body",
     ["This is a callout.", "Title", "Body"], ["{:"]),
    ("{::comment}\nhid\n{:/comment}\n\nText{::nomarkdown}x{:/}", ["Text"], ["{:"]),
    ("* TOC\n{:toc}\n\n# H\n\nText", ["H", "Text"], ["{:"]),
    ('[home]({{ site.baseurl }}/index.html) and <a href="{{ x }}">y</a>', ["home and y"], ["{{"]),
    ("{% raw %}\n```yaml\na: {{ b }}\n```\n{% endraw %}\n\nText", ["a: {{ b }}", "Text"], ["raw"]),
    ("```\n{% include a %}\n{# c #}\n%% d %%\n```", ["{% include a %}\n{# c #}\n%% d %%"], []),
    ('{% hint style="info" %}\nGitBook **hint**.\n{% endhint %}\n\n{% embed url="https://x.test/" %}',
     ["GitBook hint."], ["{%", "style", "x.test"]),
    ('{% code title="index.js" lineNumbers="true" %}\n```js\nlet a\n```\n{% endcode %}',
     ["index.js", "let a"], ["{%", "lineN"]),
    ("{% details Click to open %}\nText\n{% enddetails %}", ["Text"], ["{%"]),
    ('{% call out("x") %}\nText\n{% endcall %}\n\n{{ macro(1, "a b") }}', ["Text"], ["{"]),
    ('Use `{{ x }}` and ``{% y %}``; {{ "Hello there" | t }}.', ["Use {{ x }} and {% y %}; Hello there."], []),
    ("{{#title My page}}\n# T\n\n{{#playground a.rs}}\n\nText", ["T", "Text"], ["{{"]),
    ("```console\n$ cargo run\n{{#include ../out.txt}}\n```", ["$ cargo run"], []),
    ('Text.\n\n;--8<-- "x"\n\n-8<- "b.md"\n\nEnd', ["Text.", "End"], ["b.md"]),
    ("@include: ./x.md\n\n<!--@include: ./y.md-->\n\nEnd", ["End"], ["x.md", "y.md"]),
]  # fmt: skip
INLINE = [
    ("==Marked== and ~~gone~~ and H~2~O, x^2^ and ++new++.",
     ["Marked and gone and H2O, x2 and new."], ["==", "~", "^"]),
    ("C++ and C++11 or C++14; a == b == c; i++ and ++i.", ["C++ and C++11 or C++14; a == b == c; i++ and ++i."], []),
    ("Costs $5 and then $6, but $a_1 * b_2$ is math: $$c*d*e$$.",
     ["Costs $5 and then $6, but a_1 * b_2 is math", "c*d*e"], ["$a"]),
    ("$$\na_b = c_d\n\\\\ e\n$$\n\nAfter.", ["a_b = c_d", "After."], ["$$"]),
    ("See [[Page]], [[Page#Part|the part]] and ![[note]] ![[a.png|300]].",
     ["See Page, the part and note"], ["[", "|", "300"]),
    ("As said [[1]](http://x.test/) in `[[a]]` and [[ -f x ]].", ["As said [1] in [[a]] and [[ -f x ]]."], []),
    (":tada: done :material-check: :+1: at 10:30:45, a:b:c :unknown:",
     ["🎉 done", "👍 at 10:30:45, a:b:c :unknown:"], ["material", "tada"]),
    ("A [button](x.md){ .md-button } and ![pic](a.png){ width=300 } `code`{.py}.",
     ["A button and", "code."], ["{", "width"]),
    ("Text.\n{: .note #id }\n\nA [span]{.small} and {braces} in f{x}.",
     ["Text.", "A span and {braces} in f{x}."], [".note"]),
    ("[TOC]\n\n[[_TOC_]]\n\nText.", ["Text."], ["TOC"]),
    ("*[HTML]: Hyper Text\n*[W3C]: Consortium\n\nThe HTML.",
     ["HTML: Hyper Text", "W3C: Consortium", "The HTML."], ["*["]),
    ("# A\n\nOne[^a].\n\n# B\n\nTwo^[an aside].\n\n[^a]: Said **there**.\n\n    More of it.",
     ["A\nOne[a].\n\n[a] Said there.\n\nMore of it.", "B\nTwo (an aside)."], ["[^", "**"]),
    ("Apple\n:   A fruit.\n\nOrange\n:   Another.\n", ["Apple", "A fruit.", "Orange", "Another."], [":"]),
    ("1. [x] done\n2. [ ] open\n\n* [X] more\n* [link](a)", ["done", "open", "more", "link"], ["[x]", "[ ]", "[X]"]),
    ("| a | b |\n|---|---|\n| x \\| y | `p|q` |\n| `a \\| b` | z |", ["x | y | p|q", "a | b | z"], ["\\"]),
    ('<details markdown="1">\n<summary>Open *me*</summary>\n\n**Bold** text.\n\n</details>',
     ["Open", "Bold text."], ["**"]),
    ('<div class="grid" markdown>\n**Bold** text.\n</div>', ["Bold text."], ["**", "div"]),
    ("## Setup {: #setup .x }\n\nText {#not}: braces.", ["Setup", "braces."], ["{: #"]),
    ("**==bold mark==** and ==a **b** c==", ["bold mark and a b c"], ["=", "*"]),
    ("a ++b *c*++, 2^10^, CO~2~, ~single~", ["a b c, 210, CO2, single"], ["+", "^", "~"]),
    ("x = ~y and z ~ w; ~/home/a and ~/b; 5^2 and ^ alone",
     ["x = ~y and z ~ w; ~/home/a and ~/b; 5^2 and ^ alone"], []),
    ("if a==1 and b==2 then c+=1; c++; d++", ["if a==1 and b==2 then c+=1; c++; d++"], []),
    ("Prices: $10 or $20. $PATH and $HOME too. Inline $x$-axis.",
     ["Prices: $10 or $20. $PATH and $HOME too. Inline x-axis."], []),
    ("See [[folder/Page name|alias]], [[Page#^block]], ![[doc.pdf#page=3]] end",
     ["alias", "Page", "end"], ["[[", "doc.pdf"]),
    ("| a | b |\n|--|--|\n| [[Page\\|alias]] | x |", ["alias | x"], ["[["]),
    (":warning: careful :octicons-arrow-right-16: go :smile: :fontawesome-brands-github:{ .x }",
     ["careful", "go"], ["octicons", "smile", "fontawesome", ".x"]),
    ("std::vector :: x; key: value: other; http://a:80/:b:", ["std::vector :: x; key: value: other"], []),
    ('![Image](a.png){: style="width:3px"} Text [link](b){target=_blank rel=noopener}',
     ["Text link"], ["{", "style", "target"]),
    ('# Title {#t data-toc="x"}\n\nPara\n{ #para .c }', ["Title", "Para"], ["{"]),
    ("Some `code`{: .language-ruby} and *em*{.c} {x: 1}", ["Some code and em {x: 1}"], [".lang"]),
    ("[[toc]]\n\nText\n\n${toc}", ["Text"], ["toc"]),
    ("Ref[^1] and [^big].\n\n[^1]: Simple.\n[^big]: Two paras\n\n    second `x`\n\nText",
     ["Simple.", "Two paras", "second x"], ["[^"]),
    ("## A\n\n- item[^n]\n\n[^n]: note text\n\n## B\n\nb", ["A\n- item[n]\n\n[n] note text", "B\nb"], ["[^"]),
    ("Undefined [^x] stays", ["Undefined [^x] stays"], []),
    ("Term 1\nTerm 2\n: Def **a**\n: Def b\n\nText", ["Term 1", "Term 2", "Def a", "Def b", "Text"], ["**"]),
    ("- [ ] **a**\n  - [x] b\n- [-] c\n- [v1] d", ["a", "b", "c", "[v1] d"], ["[x]", "[ ]", "[-]"]),
    ("| Cmd | Use |\n|---|---|\n| `a || b` | or |\n| x \\| y | `c` |", ["a || b | or", "x | y | c"], ["\\"]),
    ("<details>\n<summary>Sum</summary>\n\n- *a*\n\n</details>\n\nText", ["Sum", "a", "Text"], ["*", "<"]),
    ('<div markdown="block">\n\n## Head\n\n**x**\n\n</div>\n\n<p align="center">\n  <b>raw</b> *kept*\n</p>',
     ["Head", "x", "raw *kept*"], ["**"]),
    ("The HTML.\n\n*[HTML]: Hyper Text Markup Language", ["The HTML.", "HTML: Hyper Text Markup Language"], ["*["]),
    ("\\(a_1 + b_2\\) and \\[ x \\]", ["a_1 + b_2"], []),
    ("$$ E = mc^2 $$ {#eq:e}\n\nText", ["E = mc^2", "Text"], ["$$"]),
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
    ("<details>\n  <summary>Sum **b**</summary>\n  Text *i*\n</details>", ["Sum b", "Text i"], ["*"]),
    ("export const meta = {title: 'a'}\n# T\n\n{meta.title}\n\n<Foo.Bar\n  a=\"1\"\n/>\nText",
     ["T", "Text"], ["meta", "Foo"]),
    ("<table>\n  <tbody>\n    <tr><td>a **b**</td><td>c</td></tr>\n  </tbody>\n</table>", ["a b | c"], ["*"]),
    (":::note[Title]\n\n<Admon/>\n\ntext\n\n:::", ["Title", "text"], ["<", ":::"]),
    ('- item <Badge text="new" />\n- `<Badge/>` and `{x}`', ["- item new", "- <Badge/> and {x}"], []),
    ('Vue {{ x }} <Badge type="tip" text="beta" vertical="top" />', ["Vue", "beta"], ["top", "{{"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown", "gone"), BOXES + DIRECTIVES + TAGS + INLINE)
def test_marks_of_dialects(text: str, shown: list[str], gone: list[str]) -> None:
    found = read(text)
    assert has_in_order(found, shown), found
    assert not [mark for mark in gone if mark in found], found


@pytest.mark.parametrize(("text", "shown", "gone"), MDX)
def test_mdx(text: str, shown: list[str], gone: list[str]) -> None:
    found = sections_of(mdx.read(text.encode(), None))
    assert has_in_order(found, shown), found
    assert not [mark for mark in gone if mark in found], found


@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        ("## Setup {#setup-guide}\n\nText.", ["setup-guide"]),
        ("## Setup {: #here .class}\n\nText.\n\n## Setup\n\nText.", ["here", "setup"]),
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
    notes.take()
    read('--8<-- "a.md"\n\n```{toctree}\na\n```')
    assert notes.take() == ("a file that Markdown includes was left out", "a directive was left out: toctree")

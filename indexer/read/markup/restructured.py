"""Convert reStructuredText, including the directives and roles of Sphinx, to HTML. Leave out includes and raw HTML."""

import re
from itertools import takewhile
from typing import Any, cast

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en
from docutils.parsers.rst.states import Body
from docutils.utils import new_document
from docutils.writers import html5_polyglot

from indexer.read.html.main_content import extract
from indexer.records import Extraction
from indexer.text import reader_notes
from indexer.text.charsets import decode

CODE = frozenset(
    "code code-block sourcecode code-cell code-example highlight-block prompt doctest testcode testoutput "
    "productionlist parsed-literal literal mermaid graphviz digraph uml plantuml plot ipython r python bash sh zsh sql "
    "julia js ojs rcpp stan css scss dot java c cpp go rust ruby perl octave stata sas node powershell console "
    "math latex".split()
)
HIDDEN = frozenset(
    "include literalinclude image toctree tableofcontents contents index raw bibliography highlight meta "
    "currentmodule tabularcolumns default-role sectionauthor moduleauthor codeauthor".split()
)
_NO_TITLE = frozenset("only ifconfig cssclass rst-class container".split())
_CSS_CLASSES = re.compile(r"[a-z][a-z0-9 -]*+")
_NAMED_DIRECTIVE = re.compile(r"^[ \t]*\.\.[ ](?:\|[^|\n]{1,100}\|[ ])?([\w:+-]{1,60})::", re.MULTILINE)
_NAMED_ROLE = re.compile(r":([A-Za-z][\w:+-]{0,60}):`|`:([A-Za-z][\w:+-]{0,60}):")
_MAX_REGISTERED_NAMES = 5_000
OPTION = re.compile(r":[\w-]+:(?:\s|$)")
_CHANGES = {"added": "added in", "changed": "changed in", "deprecated": "deprecated since", "removed": "removed in"}
_CHANGE = re.compile("|".join(_CHANGES))
_VERSION = re.compile(r"(?=[^\d|]*+[\d|])[\w.+|-]++|next")
_METADATA = re.compile(  # fields at the top, which Sphinx does not show, after comments and hidden directives
    rf"\A((?:[ \t]*+\n|\.\.(?![ ](?!(?:{'|'.join(HIDDEN)})::)[^\n]*::)[^\n]*+\n"
    r"(?:(?:[ \t]*+\n)*+[ \t][^\n]*+\n)*+)*+)"
    r"(?::[\w .-]++:(?:[ \t][^\n]*+)?(?:\n|\Z)(?:[ \t]++\S[^\n]*+(?:\n|\Z))*+)++(?=[ \t]*(?:\n|\Z))"
)
_FIELD = re.compile(r"^\s{0,20}:(?:caption|title|(type|default|value)):[ \t]+(\S.*)", re.MULTILINE | re.IGNORECASE)
_SETTINGS = {
    "file_insertion_enabled": False, "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5, "halt_level": 5, "warning_stream": "", "embed_stylesheet": False, "stylesheet_path": "",
    "syntax_highlight": "none", "math_output": "LaTeX", "initial_header_level": 2, "doctitle_xform": True,
    "input_encoding": "unicode", "toc_backlinks": False,
}  # fmt: skip


class _Unknown(Directive):
    """A directive that docutils does not know. It is shown as text or code, but left out if its name is in `HIDDEN`."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the argument and content of the directive as nodes."""
        name, content = self.name.lower(), self.content
        options = "\n".join([*self.arguments[:1], *takewhile(OPTION.match, content)])
        while content and OPTION.match(content[0]):
            content = content[1:]
        if name in HIDDEN:
            reader_notes.add(f"a directive was left out: {name}")
            return []
        if name in CODE or "code" in name or "console" in name:
            text, titles = "\n".join(content), fields_of("", options)
            return [*(nodes.paragraph(title, title) for title in titles), nodes.literal_block(text, text)]
        box = nodes.container()
        is_hidden = name in _NO_TITLE or (name == "class" and _CSS_CLASSES.fullmatch(" ".join(self.arguments)))
        lines = self.arguments[0].split("\n") if self.arguments and not is_hidden else []
        title = "\n".join(takewhile(lambda line: not OPTION.match(line.strip()), lines))
        change = change_of(name, title)
        if change and not content:
            change = change.removesuffix(":")
        if title := change or title:
            parsed, problems = self.state.inline_text(title, self.lineno)
            box += (heading := nodes.paragraph("", "", *parsed, *problems))
        for field in fields_of(title, options):
            parsed, problems = self.state.inline_text(field, self.lineno)
            box += nodes.paragraph("", "", *parsed, *problems)
        self.state.nested_parse(content, self.content_offset, box)
        if change and len(box) > 1 and isinstance(box[1], nodes.paragraph):
            heading += [nodes.Text(" "), *box.pop(1).children]
        return [box]


def change_of(directive: str, argument: str) -> str:
    """Return a text such as "Added in version 1.2: text" for `.. versionadded:: 1.2 text`, or "" for other directives.

    A directive that names two changes, such as `deprecated-removed`, needs two versions.
    """
    changes, words = _CHANGE.findall(directive), argument.split(maxsplit=4)
    versions = list(takewhile(_VERSION.fullmatch, words))[: len(changes)]
    if not changes or len(versions) < len(changes):
        return ""
    sentence = ", ".join(
        f"{_CHANGES[change]} version {version}" for change, version in zip(changes, versions, strict=True)
    )
    return " ".join([f"{sentence.capitalize()}:", *words[len(versions) :]])


def fields_of(name: str, options: str) -> list[str]:
    """Return the titles in the options of a directive, and for a one-word `name` other options, such as "Type: int"."""
    is_name = len(name.split()) == 1
    return [
        f"{key.capitalize()}: {value}" if key else value for key, value in _FIELD.findall(options) if is_name or not key
    ]


def shown_text(text: str) -> str:
    """Return the visible text of a reference, such as "title" for `title <target>`, and "name" for `~package.name`."""
    title = text.rpartition("<")[0].strip() if text.endswith(">") else text
    return (title.rpartition(".")[2] if title.startswith("~") else title.lstrip("!")) or text


def _role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[Any], list[Any]]:
    return [nodes.inline(rawtext, shown_text(text))], []


_registered_names: set[str] = set()
# replace three directives of docutils: in Sphinx, code blocks have captions, and `class` documents a Python class
for _name in ("code-block", "sourcecode", "class"):
    directives.register_directive(_name, _Unknown)


class _Options(dict[str, Any]):
    """Validators of a directive's options. Unknown options are accepted; otherwise, docutils drops the directive."""

    def __missing__(self, name: str) -> Any:
        """Return a validator that accepts any value of an unknown option."""
        return directives.unchanged


# replace all sizes, because docutils drops a table, a figure or even the whole document if a size is invalid
_SIZES = {"width": lambda _: "100", "height": lambda _: "100", "figwidth": lambda _: "100", "scale": lambda _: 100}
for _name in en.directives.values():
    _directive, _ = directives.directive(_name, cast(Any, en), new_document(""))
    if _directive is not None and _directive is not _Unknown:
        _directive.option_spec = _Options(_directive.option_spec or {})
        _directive.option_spec.update((name, _SIZES[name]) for name in _SIZES.keys() & _directive.option_spec.keys())
Body.enum.converters["arabic"] = lambda text: int(text[:9])  # Python does not convert more than 4,300 digits


class _Writer(html5_polyglot.Writer):
    """A writer without a page template, because reader processes cannot open the file of the template."""

    def apply_template(self) -> str:
        """Return an empty page, because only `html_body` is used."""
        return ""


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the sections of a text in reStructuredText."""
    text = _METADATA.sub(r"\1", decode(body, charset, markup=False).replace("\r\n", "\n"))
    extraction = extract(f"<body><main>{to_html(text)}</main></body>")
    return Extraction(extraction.title, extraction.sections)


def to_html(text: str) -> str:
    """Convert reStructuredText to HTML without <html> and <head>."""
    for name in {*_NAMED_DIRECTIVE.findall(text)} - _registered_names - {*en.directives}:
        if len(_registered_names) < _MAX_REGISTERED_NAMES:
            directives.register_directive(name, _Unknown)
            _registered_names.add(name)
    for name in {before or after for before, after in _NAMED_ROLE.findall(text)} - {*en.roles}:
        if len(_registered_names) < _MAX_REGISTERED_NAMES and f":{name}:" not in _registered_names:
            roles.register_local_role(name, _role)
            _registered_names.add(f":{name}:")
    document = publish_parts(text, writer=_Writer(), settings_overrides=_SETTINGS)
    return str(document["html_body"])

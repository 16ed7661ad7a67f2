"""reStructuredText to content; nothing it names is included, nothing raw is passed on.

What Sphinx adds to the language is known well enough to keep the text of it.
"""

from typing import Any

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, directives, roles
from docutils.writers import html5_polyglot

from indexer.decoding import decode
from indexer.read.extraction import Extraction
from indexer.read.html.main_content import extract

_ROLES = (
    "ref doc term any numref option envvar keyword token file samp command program guilabel menuselection kbd func "
    "class meth method mod attr attribute data const exc obj type var py:func py:class py:meth py:mod py:attr py:data "
    "py:exc py:obj py:const c:func c:type c:macro c:data c:member issue gh pep source dfn mailheader mimetype"
).split()
_KEPT = (  # directives whose argument and text are read
    "versionadded versionchanged versionremoved deprecated seealso function class method attribute data exception "
    "module decorator py:function py:class py:method py:attribute py:data py:exception py:module c:function c:type "
    "c:macro option envvar describe object glossary impl-detail classmethod staticmethod tab tabs dropdown"
).split()
_CODE = "code-block sourcecode highlight-block prompt doctest testcode testoutput productionlist".split()
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,  # or a docutils.conf in some folder would have its say
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": "",
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "initial_header_level": 2,
    "doctitle_xform": True,
    "input_encoding": "unicode",
    "toc_backlinks": False,
}


class _Kept(Directive):
    """A directive that is unknown to docutils: what it says is text."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Argument and content."""
        found = nodes.container()
        if self.arguments:
            found += nodes.paragraph("", self.arguments[0])
        self.state.nested_parse(_without_options(self.content), self.content_offset, found)
        return [found]


class _Writer(html5_polyglot.Writer):
    """Writes what is within a page, and so reads no template of one: a reader may open no file."""

    def apply_template(self) -> str:
        """Put nothing around it."""
        return ""


class _Code(Directive):
    """A block of code under a name that is unknown to docutils."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The code as it is."""
        text = "\n".join(_without_options(self.content))
        return [nodes.literal_block(text, text)]


def _without_options(content: Any) -> Any:
    while content and content[0].startswith(":"):
        content = content[1:]
    return content


def shown_text(text: str) -> str:
    """Return what a reference shows: of `title <target>` the title, of `~package.name` the name."""
    title = text.rpartition("<")[0].strip() if text.endswith(">") else text
    return (title.rpartition(".")[2] if title.startswith("~") else title.lstrip("!")) or text


def _role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[Any], list[Any]]:
    return [nodes.inline(rawtext, shown_text(text))], []


for _name in _ROLES:
    roles.register_local_role(_name, _role)
for _name in _KEPT:
    directives.register_directive(_name, _Kept)
for _name in _CODE:
    directives.register_directive(_name, _Code)


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a text in reStructuredText."""
    found = extract(f"<body><main>{to_html(decode(body, charset, markup=False))}</main></body>")
    return Extraction(found.title, found.sections)


def to_html(text: str) -> str:
    """Return what a page of this text shows between the tags of its body."""
    parts = publish_parts(text, writer=_Writer(), settings_overrides=_SETTINGS)
    return str(parts["html_body"])

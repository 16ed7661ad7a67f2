"""Manual pages to content: the macros man(7) and mdoc(7) of troff, as far as they carry text.

No library reads them that is kept up; troff itself is a language, of which this follows neither definitions, nor
conditions, nor includes. What is read becomes HTML, so that sections, lists and code come out as everywhere else.
"""

import re
from html import escape

from indexer.decoding import decode
from indexer.read.extraction import Extraction
from indexer.read.files.roff import arguments, plain, without_definitions
from indexer.read.html.main_content import extract

_IS_PAGE = re.compile(r"^[.'][ \t]*(?:TH|Dt|Sh|SH)\b", re.MULTILINE)
_MACRO = re.compile(r"[.'][ \t]*([A-Za-z][A-Za-z0-9]?[A-Za-z]?)(?:[ \t]+(.*))?$")
_FONTS = frozenset("B I R SM SB CW".split())
_ALTERNATING = frozenset("BR RB BI IB IR RI".split())
_PARAGRAPHS = frozenset("PP P LP Pp HP sp Lp".split())
_TAGGED = frozenset({"TP", "TQ"})
_CODE = frozenset({"nf", "EX", "Bd"})
_END_OF_CODE = frozenset({"fi", "EE", "Ed"})
_LINES = frozenset({"D1", "Dl"})
_LINKS = frozenset({"UR", "MT"})
_QUOTES = {"Dq": "“”", "Do": "“”", "Sq": "‘’", "Ql": "‘’", "Qq": '""', "Pq": "()", "Bq": "[]", "Op": "[]", "Aq": "<>"}
_QUOTES |= {"Oo": "[ ", "Oc": " ]", "Brq": "{}"}
# macros of mdoc whose arguments are text; those that are not named anywhere here, such as .ad, say how a page looks
_INLINE = frozenset(
    "Ad An Ap Ar At Bx Cd Cm Dv Em Er Ev Fa Fd Fn Ft Ic In Lb Li Lk Ms Mt No Ns Nx Ox Pa Rv Sm St Sx Sy Tn Ux Va Vt Xo "
    "Xc %A %B %D %I %J %N %O %P %R %T %U %V Fo Fc Nm Fl Xr Pf".split()
)
_SPOKEN = _INLINE | _QUOTES.keys()
_TIGHT = frozenset(") ] } . , ; : ! ? ”".split())
_MOST_LINES = 200_000


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a manual page; of a file that is none, which its name does not tell, nothing."""
    text = "" if body.count(0) else decode(body, charset, markup=False)
    if not _IS_PAGE.search(text):
        return Extraction(None, ())
    page = _Page()
    for line in without_definitions(text.replace("\r\n", "\n").split("\n")[:_MOST_LINES]):
        page.line(line)
    found = extract(f"<body><main>{page.html()}</main></body>")
    return Extraction(page.title or found.title, found.sections)


class _Page:
    """Writes HTML, line by line."""

    def __init__(self) -> None:
        self.title = ""
        self._name = ""  # of the command, for `.Nm`
        self._out: list[str] = []
        self._code = False
        self._waiting = ""  # what the next line of text is: the heading or term that a macro has announced
        self._lists = 0  # open lists of terms

    def html(self) -> str:
        """Return all that was written."""
        if self._code:
            self._out.append("</pre>")
        return "".join(self._out)

    def line(self, line: str) -> None:
        """Read a line of the page."""
        if line[:1] not in (".", "'"):
            self._text(plain(line) if line.strip() or self._code else "")
            return
        found = _MACRO.match(line)
        if found is not None:
            self._macro(found[1], arguments(found[2] or ""))

    def _text(self, text: str) -> None:
        if self._code:
            self._out.append(f"{escape(text)}\n")
        elif not text.strip():
            self._end_term() if self._waiting else self._out.append("<p>")
        elif self._waiting:
            waiting, self._waiting = self._waiting, ""
            self._out.append(f"<{waiting}>{escape(text)}</{waiting}>" + ("<dd>" if waiting == "dt" else ""))
        else:
            self._out.append(f"{escape(text)}\n")

    def _macro(self, name: str, given: list[str]) -> None:
        if name in ("TH", "Dt") and given:
            self.title = f"{given[0].lower() if given[0].isupper() else given[0]}({''.join(given[1:2])})"
        elif name in ("SH", "Sh", "SS", "Ss"):
            self._end_lists()
            self._waiting = "h2" if name.lower() == "sh" else "h3"
            if given:
                self._text(_joined(given))
        elif name in _CODE:
            self._begin_code()
        elif name in _END_OF_CODE:
            self._end_code()
        elif name in _PARAGRAPHS:
            self._out.append("\n" if self._code else "<p>")
            if name not in ("sp", "Pp"):
                self._end_lists()
        elif name in _TAGGED or (name == "IP" and given) or name == "It":
            self._term(name, given)
        elif name == "El":
            self._end_lists()
        elif name in ("br", "IP"):
            self._out.append("\n" if self._code else "<br>")
        elif name in _LINES:
            self._out.append(f"<pre>{escape(_words(given, self._name))}</pre>")
        elif name == "Nd":
            self._text(f"— {_joined(given)}")
        elif name == "Nm" and not self._name and given:
            self._name = given[0]
            self._text(_joined(given))
        else:
            self._words(name, given)

    def _words(self, name: str, given: list[str]) -> None:
        """A macro whose arguments are text."""
        if name in _FONTS or name in _LINKS:
            self._text(_joined(given)) if given else None
        elif name in _ALTERNATING:
            self._text("".join(given))
        elif name in _SPOKEN:
            self._text(_words([name, *given], self._name))

    def _term(self, name: str, given: list[str]) -> None:
        self._end_code()
        if not self._lists:
            self._out.append("<dl>")
            self._lists = 1
        self._waiting = "dt"
        if name == "IP":
            self._text(given[0])
        elif name == "It":
            self._text(_words(given, self._name)) if given else self._end_term()

    def _end_term(self) -> None:
        if self._waiting == "dt":
            self._out.append("<dd>")
        self._waiting = ""

    def _end_lists(self) -> None:
        self._end_code()
        self._end_term()
        if self._lists:
            self._out.append("</dl>")
            self._lists = 0

    def _begin_code(self) -> None:
        if not self._code:
            self._out.append("<pre>")
            self._code = True

    def _end_code(self) -> None:
        if self._code:
            self._out.append("</pre>")
            self._code = False


def _joined(given: list[str]) -> str:
    return " ".join(given)


def _words(given: list[str], command: str) -> str:
    """Text of a line of mdoc, in which macros stand between words."""
    said: list[str] = []
    closing: list[str] = []
    flag = glued = False
    for place, word in enumerate(given):
        if word in _QUOTES and word not in ("Oo", "Oc"):
            said.append(("" if glued or not said else " ") + _QUOTES[word][0])
            closing.append(_QUOTES[word][1:])
            flag, glued = False, True
            continue
        if word in _INLINE or word in ("Oo", "Oc"):
            flag = word == "Fl"
            glued = glued or word in ("Ns", "Ap", "Oc")
            is_last = place + 1 == len(given) or given[place + 1] in _SPOKEN  # no word follows that is its own
            if word in ("Oo", "Oc"):
                said.append(_QUOTES[word].strip() if glued else f" {_QUOTES[word].strip()}")
                glued = word == "Oo"
            elif word == "Nm" and command and is_last:
                said.append(("" if glued or not said else " ") + command)
                glued = False
            elif word == "Fl" and is_last:
                said.append(" -" if said and not glued else "-")
                glued, flag = True, False
            continue
        if place and given[place - 1] == "Xr" and place + 1 < len(given) and given[place + 1][:1].isdigit():
            word += f"({given[place + 1]})"
            given = [*given[: place + 1], "", *given[place + 2 :]]
        elif place > 1 and given[place - 2] == "Xr" and word[:1].isdigit():
            continue
        if word in _TIGHT and closing:
            said += closing[::-1]
            closing.clear()
        gap = "" if glued or not said or word in _TIGHT else " "
        said.append(f"{gap}{'-' if flag and word not in _TIGHT else ''}{word}")
        glued = word in ("(", "[", "{")
    return "".join([*said, *closing[::-1]])

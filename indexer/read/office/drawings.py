"""Read what is drawn into Office documents: diagrams, titles of charts, descriptions, equations, font symbols."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree

from indexer import notes
from indexer.read.office.zipped import Package

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DELETED = (f"{W}del", f"{W}moveFrom")
_IN_FONT = re.compile("[\uf020-\uf0ff]")


def _table(runs: str) -> dict[int, str]:
    return {int(run[:2], 16) + place: character for run in runs.split() for place, character in enumerate(run[2:])}


_FONTS = {
    "symbol": _table(
        "21!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼ "
        "A0€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|─↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ F1〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
    ),
    "wingdings": _table(
        "22✂ 28☎✆✉ 36⌛⌨ 3F✍✍✌👌👍👎☜☞☝☟✋ 4A☺😐☹💣☠⚐ 51✈☼💧❄ "
        "58✠✡☪☯ 5E♈♉♊♋♌♍♎♏♐♑♒♓ 6C●❍■□ 71❑❒⬧⧫◆❖⬥⌧⮹⌘ 7B❀✿❝❞ 80⓪①②③④⑤⑥⑦⑧⑨⑩"
        "⓿❶❷❸❹❺❻❼❽❾❿ 9E·•▪○ A1○◯◉◎ A7▪◻ AA✦★✶✴✹✵ "
        "B1⌖ B5✪✰ B7🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🕛 D5⌫⌦ D8➢ DC➲ DF←→↑↓↖↗↙↘ E8➔ EF⇦⇨⇧⇩⬄⇳⬀⬁⬃⬂ FB✘✔☒☑"
    ),
    "wingdings 2": _table("4F✗✓☒☑☒☒ 69⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿ 96•● A2■□☐"),
    "wingdings 3": _table("66←→↑↓↖↗↙↘ 70▲▼△▽◀▶◁▷ 7D▶"),
    "webdings": _table("61✔ 67■ 6E● 72✖"),
}


def text_of_symbol(element: Any) -> str:
    """Return the character of a `w:sym` element."""
    try:
        return _character(int(element.get(f"{W}char", ""), 16), element.get(f"{W}font", ""))
    except ValueError:
        return ""


def readable(text: str, font: str) -> str:
    """Return a text whose private characters, if it has any, are those of a font."""
    return text if text.isascii() else _IN_FONT.sub(lambda found: _character(ord(found[0]), font or "Symbol"), text)


def _character(code: int, font: str) -> str:
    table = _FONTS.get(font.lower())
    if table is None and code >> 8 != 0xF0:
        return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    if code & 0xFF == 0x20:
        return " "
    if (found := (table or {}).get(code & 0xFF, "")) == "":
        notes.add("a sign of a font that is not known")
    return found


M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SINGLE = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+|\d+(?:[.,]\d+)?|\S?|√?\([^()]*\)")  # needs no parentheses


def linear(node: Any) -> str:
    """Return the text of an equation, or of a part of one."""
    name = node.tag.removeprefix(M)
    if node.tag in DELETED or name.endswith("Pr"):
        return ""
    if name in ("t", f"{W}t"):
        return node.text or ""
    if name == f"{W}sym":
        return text_of_symbol(node)
    texts = [(_local(child), linear(child)) for child in node.iterchildren(tag=etree.Element)]
    part = defaultdict(str, {kind: text.strip() for kind, text in texts})
    cells = [text.strip() for kind, text in texts if kind in ("e", "mr")]
    limits = "".join(f"{sign}{_group(part[kind])}" for sign, kind in (("_", "sub"), ("^", "sup")) if part[kind])

    def value(name: str, default: str) -> str:
        found = node.find(f"{node.tag}Pr/{M}{name}")
        return default if found is None else str(found.get(f"{M}val", ""))

    match name:
        case "f":
            return f"{_group(part['num'])}/{_group(part['den'])}"
        case "sSub" | "sSup" | "sSubSup":
            return f"{_group(part['e'])}{limits}"
        case "sPre":
            return f"{limits}{part['e']}"
        case "limLow" | "limUpp":
            return f"{part['e']}{'_' if name == 'limLow' else '^'}{_group(part['lim'])}"
        case "rad":
            return f"{part['deg']}√({part['e']})"
        case "nary":
            return f"{value('chr', '∫')}{limits} {part['e']}"
        case "d":
            return f"{value('begChr', '(')}{value('sepChr', '|').join(cells)}{value('endChr', ')')}"
        case "mr":
            return ", ".join(cells)
        case "m" | "eqArr":  # row by row, or equations that stand below each other
            return "; ".join(cells)
        case "func":
            return f"{part['fName']} {part['e']}"
    return "".join(text for _, text in texts)


def _group(text: str) -> str:
    return text if _SINGLE.fullmatch(text) else f"({text})"


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_D = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_V = "{urn:schemas-microsoft-com:vml}"
_SAYING = frozenset({"t", "docPr", "cNvPr", "chart", "relIds", "textpath", "imagedata", "OLEObject", "oleObj"})
_MADE_UP = re.compile(  # what programs write for people who wrote nothing
    r"(?:description automatically generated|automatisch generierte beschreibung|ai-generated content)[^\n]*",
    re.I,
)
_NAME_ONLY = re.compile(r"\S*|[^\W\d_]+(?: [^\W\d_]+)? ?\d*|.*\.(?:png|jpe?g|gif|bmp|tiff?|svg|emf|wmf)", re.I | re.S)


def children(node: Any) -> Iterator[Any]:
    """Yield the elements in another one but deleted ones; of several forms only the first that says something."""
    for child in node.iterchildren(tag=etree.Element):
        if child.tag != f"{_MC}AlternateContent":
            if child.tag not in DELETED:
                yield child
            continue
        forms = list(child.iterchildren(f"{_MC}Choice", f"{_MC}Fallback"))
        wanted = (form for form in forms if any(_local(element) in _SAYING for element in form.iter("{*}*")))
        yield from children(next(wanted, forms[0] if forms else child))


def drawn(element: Any, package: Package, relations: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the paragraphs that an element of `DRAWN` says."""
    kind = _local(element)
    if kind == "textpath":
        yield element.get("string", "")
    elif kind in ("OLEObject", "oleObj"):
        notes.add("an embedded object was not read")
    elif kind == "chart":
        _, name = relations.get(element.get(f"{_R}id", ""), ("", ""))
        titles = package.xml(name).iter(f"{_C}title") if element.tag.startswith(_C) and name in package else ()
        yield from filter(None, map(_words, titles))
        notes.add("the figures of a chart were not read")
    elif kind == "relIds":
        _, name = relations.get(element.get(f"{_R}dm", ""), ("", ""))
        if name not in package:
            notes.add("a diagram was not read")
            return
        for point in package.xml(name).iter(f"{_D}pt"):
            if point.get("type", "node") in ("node", "asst") and (text := _words(point)):
                yield text
    elif element.get("hidden") not in ("1", "true"):
        around = element.getparent()  # the shape of imagedata, whose alternative text is there
        said = around.get("alt", "") if kind == "imagedata" else element.get("descr", "")
        said = " ".join(_MADE_UP.sub("", said).split())
        if said and not _NAME_ONLY.fullmatch(said):
            yield said
        elif kind == "imagedata" or _local(around) == "nvPicPr" or next(around.iter(_PICTURE), None) is not None:
            notes.add("a picture without a description was left out")


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2] if element is not None else ""


def _words(element: Any) -> str:
    paragraphs = ("".join(text.text or "" for text in lines.iter(f"{_A}t")) for lines in element.iter(f"{_A}p"))
    return " ".join(" ".join(paragraphs).split())


_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic"
_WORD = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_SLIDE = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
DRAWN = frozenset(  # elements that `drawn` reads
    {f"{_WORD}docPr", f"{_SLIDE}cNvPr", f"{_SLIDE}oleObj", f"{_C}chart", f"{_D}relIds"}
    | {f"{_V}textpath", f"{_V}imagedata", "{urn:schemas-microsoft-com:office:office}OLEObject"}
    | {"{http://schemas.microsoft.com/office/drawing/2014/chartex}chart"}
)

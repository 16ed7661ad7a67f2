"""The main part of a single web page: where its text stands, and which boxes around and inside it are furniture.

Pages of a site share their furniture, and the template of the site tells what that is. Of a single article, blog post,
product or thread only the page itself is known: how much prose an element holds, how much of it leads elsewhere, and
the words in the names that authors and content management systems give to boxes. Prose is text in blocks that are long
enough to be a sentence, and not mostly links. No rule here removes most of the prose of a page.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, takewhile
from operator import is_not

from indexer.read.html.html_tree import Element, HtmlTree
from indexer.read.html.noise import is_noise

_BLOCKS = frozenset(
    "address article aside blockquote body button caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 header hgroup html iframe label legend li main menu nav noscript ol option "
    "p pre section select summary table tbody td textarea tfoot th thead tr ul".split()
)
_NO_TEXT = frozenset("script style template svg head select textarea iframe object".split())
_OPAQUE = _NO_TEXT | {"pre", "code", "math"}  # nothing below them is looked at
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_SENTENCE = 80  # characters of a block that is prose
_IDEOGRAPHS = 3  # letters of another script that one of Chinese, Japanese or Korean says as much as
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SAMPLE = 4_000  # characters of which the script is told
_LINKED = 0.5  # share of the text of a block inside links above which it is no prose
_FEW_LINKS = 0.25  # the same in a box whose name says little
_LITTLE = 200  # characters of a box whose name says little
_ENOUGH = 400  # characters of prose that a page keeps when a box is removed that has more
_MOST = 0.5  # share of the prose of a page above which a box is no furniture
_NAMED = 0.5  # share of the prose of a page that a part holds which its name calls the text
_CONTAINER = 0.85  # share of the prose of an element that its main part holds
_LEAD = 0.3  # prose before the main part, as a share of it
_NEAR = 3  # elements around the main part, or in a block, that are looked at
_ALL = 0.95
_SOME = 0.3  # the same of text outside links
_WAYS = 0.4  # share of the text around a part that is inside links
_LONGEST_ID = 40  # characters of an id that somebody chose
_LONGEST_NAME = 300  # characters of the names of an element
_AROUND = 0.75  # share of the prose of a page that an element holds which only stands around it

# Words of names; they begin where the name does, or after "-", "_", a digit or before a capital.
_COMMENTS = (
    r"comments\b|comment.?(?:list|area|form|section|wrap|thread|block|container)|kommentare|commentaires|comentarios"
    r"|commenti\b|reacties|disqus|respond\b|livefyre"
)
_STRONG = (
    r"related|recommend|recirc|taboola|outbrain|trending|popular|most.?(?:read|viewed|shared)|similar|you.?may|zergnet"
    r"|read.?(?:also|next)|more.?(?:stories|news|from|articles|on)\b|up.?next|(?:next|prev\w*).?(?:article|post|story)"
    r"|shar(?:e|ing)\b|share.?(?:daddy|bar|tool|button|link|this|box|icon)|socials?\b|social.?(?:bar|media|link|icon|share)"
    r"|addthis|addtoany|cookie|consent|gdpr|newsletter|subscri(?:be|ption)|sign.?up\b|log.?in\b|paywall"
    r"|ads?\b|adv\b|advert|sponsor|adsense|dfp\b|werbung|anzeige|publicidad|author.?(?:bio|box|info|card|desc)"
    r"|about.?(?:the.?)?author|biograph|jp.?relatedposts|relatedposts|verwandte|entry.?(?:meta|utility)"
)
_WEAK = (
    r"meta\b|meta.?data|author|byline|dates?\b|dateline|timestamp|time\b|publish|header|promo|teaser|follow|banner|more\b"
    r"|tools?\b|actions?\b|ratings?\b|votes?\b|reactions?\b|donat|credit|tagged|tags\b|tag.?(?:list|cloud|links)"
    r"|keywords|categor(?:y|ies)|views\b|read.?time|breaking|ticker|carousel|slider|poll\b|quiz|survey|app.?download"
    r"|print\b|feedback|side.?bar|widgets?\b|bread.?crumb|paginat|pager|navi?\b|navbar|navigation|menu\b|footer"
    r"|masthead|toolbar|copyright|post.?(?:meta|info)|article.?(?:meta|info|tools)|pop.?up|modal|overlay|lightbox"
    r"|comment\b|(?:next|prev|previous)\b|info.?items?\b|report\b"
)
_POSTERS = (  # who wrote a post of a thread, and what to do with it
    r"\w*profile\b|user\b|user.?(?:info|details|cell|card|name|title)|signature|poster\b|joined"
    r"|(?:post|message).?(?:author|buttons|menu|stats|user|meta|info)|author\b|answers.?sub.?header"
)
_NAME = re.compile(rf"\b(?:(?P<comments>{_COMMENTS})|(?P<strong>{_STRONG})|(?P<poster>{_POSTERS})|(?P<weak>{_WEAK}))")
_TEXT_NAME = re.compile(
    r"\b(?:article|post|entry|story|blog|news|page|artikel|beitrag|articolo|noticia|nota|main|name|text)s?-*"
    r"(?:body|content|text|copy|contenu|inhalt|texto?|cuerpo|corpo)\b|\b(?:body-?(?:copy|text)|hentry|mw-content-text"
    r"|article|artikel|story|entry|content|post|detail|editor)\b"
)
_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|_+")
_ENDS = frozenset("nav footer dialog navigation contentinfo alertdialog".split())  # names and roles
_NEVER_NAMED = frozenset("html body main article a span b i em strong td tr tbody".split()) | _HEADINGS
_BOXES = frozenset("aside div footer form nav ol table ul".split())  # whose id may say what they are
_SECTIONS = re.compile(r"section|sect\d*|level\d*|chapter")  # classes of parts whose id is that of their heading
_ARTICLE = re.compile(r'"@type"[\s:\[]*"\w*(?:Article|BlogPosting|Review)"')
_SIGNS = 2  # boxes whose names say surely what they are; a page that has them is one made for the web


@dataclass(slots=True)
class Size:
    """Characters of text in an element, how many are inside links, and how many are prose."""

    text: int = 0
    linked: int = 0
    prose: int = 0
    own: int = 0  # outside of blocks within it
    own_linked: int = 0
    has_prose: bool = False  # outside of blocks within it
    is_titled: bool = False  # whether it holds a main heading

    @property
    def bare(self) -> int:
        """Characters outside of links."""
        return self.text - self.linked


Sizes = dict[int, Size]  # by the id of an element


def measure(root: Element, *, with_noise: bool = True) -> Sizes:
    """Measure an element and all elements below, but for those without text, and noise unless it is wanted."""
    order: list[tuple[Element, Element | None]] = []
    todo: list[tuple[Element, Element | None]] = [(root, None)]
    sizes: Sizes = {}
    sample: list[str] = []
    sampled = 0
    while todo:
        element, parent = todo.pop()
        order.append((element, parent))
        own = 0
        for node in element.children:
            if isinstance(node, str):
                length = len(node) if len(node) < 3 else len(node.strip())
                own += length
                if length and sampled < _SAMPLE:
                    sample.append(node)
                    sampled += length
            elif node.name not in _NO_TEXT and (with_noise or not is_noise(node)):
                todo.append((node, element))
        sizes[id(element)] = Size(text=own, own=own)
    is_dense = len(_IDEOGRAPH.findall("".join(sample))) * _IDEOGRAPHS > sampled
    sentence = _SENTENCE // _IDEOGRAPHS if is_dense else _SENTENCE
    for element, parent in reversed(order):
        size = sizes[id(element)]
        if element.name == "a" and "href" in element.attributes:
            size.linked, size.own_linked, size.prose = size.text, size.own, 0
        is_block = element.name in _BLOCKS
        if is_block and size.own - size.own_linked >= sentence and size.own_linked <= _LINKED * size.own:
            size.prose += size.own
            size.has_prose = True
        if parent is None:
            continue
        around = sizes[id(parent)]
        around.text += size.text
        around.linked += size.linked
        around.prose += size.prose
        around.is_titled |= size.is_titled or element.name == "h1"
        if not is_block:
            around.own += size.own
            around.own_linked += size.own_linked
    return sizes


@dataclass(slots=True)
class Publication:
    """What a page says to others about itself."""

    is_published: bool = False  # shown by other sites, or followed by readers
    is_article: bool = False


def publication(tree: HtmlTree) -> Publication:
    """Look for what a page says about itself to sites that show it, to search engines, and to readers of feeds."""
    found = Publication()
    signs = 0
    for element in tree.elements:
        attributes = element.attributes
        if not attributes:
            continue
        if element.name == "meta":
            key = attributes.get("property", "") or attributes.get("name", "")
            if key.startswith(("og:", "article:", "fb:", "twitter:")):
                found.is_published = True
                found.is_article |= key.startswith("article:") or attributes.get("content") == "article"
        elif element.name == "link":
            found.is_published |= attributes.get("type", "") in ("application/rss+xml", "application/atom+xml")
        elif element.name == "script":
            if attributes.get("type", "") == "application/ld+json":
                found.is_published = True
                found.is_article |= _ARTICLE.search(element.text()) is not None
        elif "itemtype" in attributes or "itemprop" in attributes:
            found.is_published = True
        elif not found.is_published and signs < _SIGNS:
            signs += _kind(element) in ("comments", "strong")
    found.is_published |= signs >= _SIGNS
    return found


def main_part(body: Element, marked: Callable[[Sizes], Element | None], *, is_article: bool) -> Element:
    """Remove the furniture in a page, and return the part of it that holds its text.

    Args:
        body: the page.
        marked: returns the element that the page marks as its main part, if it is to be believed.
        is_article: whether the page says that it is an article.
    """
    sizes = measure(body)
    unwrap(body, sizes)
    _remove_boxes(body, sizes, is_article=is_article)
    sizes = measure(body, with_noise=False)
    start = marked(sizes) or body
    named = part = _named_part(start, sizes) or start
    while (inner := _inner(part, sizes, is_article=is_article and named is start)) is not None:
        part = inner
    if is_article:
        _trim(part, sizes)
    part.children[:0] = _leads(part, start, sizes)
    return part


def unwrap(body: Element, sizes: Sizes) -> bool:
    """Make plain divisions of elements that look like furniture but hold nearly all of a page; return if there are."""
    found = False
    around: Element | None = body
    while around is not None:
        whole = sizes[id(around)]
        measured = [node for node in around.children if isinstance(node, Element) and id(node) in sizes]
        around = next((node for node in measured if _is_most(sizes[id(node)], whole)), None)
        if around is not None and around.name not in _ENDS and around.get("role") not in _ENDS and is_noise(around):
            around.name = "div"
            around.attributes = {"id": around.get("id")}
            found = True
    return found


def _is_most(part: Size, whole: Size) -> bool:
    return part.prose >= _AROUND * whole.prose if whole.prose else part.text >= _ALL * whole.text > 0


def _leads(part: Element, start: Element, sizes: Sizes) -> list[Element]:
    """Blocks with the little prose that stands before a part, such as the lead of an article."""
    found: list[Element] = []
    inner = part
    for around in islice(part.parents, _NEAR):
        if inner is start or id(around) not in sizes:
            break
        before = takewhile(partial(is_not, inner), around.children)
        blocks = [node for node in before if isinstance(node, Element) and id(node) in sizes and sizes[id(node)].prose]
        leads = [lead for node in blocks for lead in (node, *node.elements()) if _is_lead(lead, sizes)]
        if sum(sizes[id(lead)].own for lead in leads) > _LEAD * sizes[id(part)].prose:
            break
        found[:0] = leads
        inner = around
    return found


def _is_lead(element: Element, sizes: Sizes) -> bool:
    size = sizes.get(id(element))
    return size is not None and size.has_prose and size.own == size.text and not _kind(element)


def _trim(part: Element, sizes: Sizes) -> None:
    """Remove what stands before the first prose of an article and after its last, and leads elsewhere."""
    units = [part, *(element for element in part.elements() if element.name in _BLOCKS)]
    units = [element for element in units if id(element) in sizes and sizes[id(element)].own]
    prose = [place for place, element in enumerate(units) if sizes[id(element)].has_prose]
    if not prose:
        return
    gone = {id(element) for element in units[: prose[0]] if _is_edge(element, sizes)}
    for element in reversed(units[prose[-1] + 1 :]):
        if element.name not in _HEADINGS and not _is_edge(element, sizes):
            break
        gone.add(id(element))
    for element in [part, *part.elements()]:
        if any(id(node) in gone for node in element.children):
            element.children = [node for node in element.children if id(node) not in gone]


def _is_edge(element: Element, sizes: Sizes) -> bool:
    size = sizes[id(element)]
    if element.name in _HEADINGS or size.prose:
        return False
    if size.own == size.text and element.name in ("div", "section"):
        return True
    if size.own_linked >= _LINKED * size.own or _kind(element):
        return True
    return any(node.name == "time" for node in islice(element.elements(), _NEAR))


def _remove_boxes(start: Element, sizes: Sizes, *, is_article: bool) -> None:
    """Remove boxes whose names say that they are furniture, as long as most of the page stays."""
    is_prose = sizes[id(start)].prose >= _ENOUGH
    total = left = _weight(sizes[id(start)], is_prose)
    todo = [start]
    while todo:
        element = todo.pop()
        gone = set()
        for node in element.children:
            if isinstance(node, str) or node.name in _OPAQUE or id(node) not in sizes:
                continue
            size = sizes[id(node)]
            kind = _kind(node)
            rest = left - _weight(size, is_prose)
            is_spared = size.is_titled or (rest < _MOST * total and not (kind == "comments" and rest >= _ENOUGH))
            if kind and not is_spared and _is_furniture(kind, size, is_article=is_article):
                gone.add(id(node))
                left = rest
                continue
            todo.append(node)
        if gone:
            element.children = [node for node in element.children if id(node) not in gone]


def _is_furniture(kind: str, size: Size, *, is_article: bool) -> bool:
    """Whether a box with a name of this kind is furniture; a name that says little is believed of short boxes."""
    if kind in ("comments", "strong") or size.linked > _FEW_LINKS * size.text:
        return True
    return (kind == "poster" or is_article) and (not size.prose or size.text < _LITTLE)


def _weight(size: Size, is_prose: bool) -> int:
    return size.prose if is_prose else size.bare


def _kind(element: Element) -> str:
    """The kind of furniture that the names of an element say it is, if any."""
    attributes = element.attributes
    if element.name in _NEVER_NAMED or not ("class" in attributes or "id" in attributes):
        return ""
    names = attributes.get("class", "")
    if len(attributes.get("id", "")) < _LONGEST_ID and element.name in _BOXES and not _SECTIONS.fullmatch(names):
        names = f"{names} {attributes.get('id', '')}"
    return _kind_of(names[:_LONGEST_NAME])


@lru_cache(maxsize=4_096)
def _kind_of(names: str) -> str:
    if "hentry" in names:
        return ""
    found = _NAME.search(_PARTS.sub("-", names).lower())
    return (found.lastgroup or "") if found is not None else ""


def _named_part(start: Element, sizes: Sizes) -> Element | None:
    """The smallest element that holds most of the prose, and is the only one whose name says that it is the text."""
    least = max(1, _NAMED * sizes[id(start)].prose)
    bare = _SOME * sizes[id(start)].bare
    found: list[tuple[int, int, Element]] = []
    times = Counter[str]()
    for place, element in enumerate([start, *start.elements()]):
        size = sizes.get(id(element))
        if size is None or not size.prose or element.name not in _BLOCKS:
            continue
        times[element.get("class")] += 1
        if (
            size.prose >= least
            and size.bare >= bare
            and (
                "articleBody" in element.get("itemprop")
                or _is_text(f"{element.get('class')} {element.get('id')}"[:_LONGEST_NAME])
            )
        ):
            found.append((size.text, -place, element))
    found = [one for one in found if times[one[2].get("class")] == 1 or not one[2].get("class")]
    return min(found)[2] if found else None


@lru_cache(maxsize=4_096)
def _is_text(names: str) -> bool:
    return _TEXT_NAME.search(_PARTS.sub("-", names).lower()) is not None


def _inner(part: Element, sizes: Sizes, *, is_article: bool) -> Element | None:
    """The element that holds nearly all of a part; outside of articles, what is around it are ways elsewhere."""
    whole = sizes[id(part)]
    for node in part.children:
        if isinstance(node, Element) and node.name in _BLOCKS and id(node) in sizes and node.name not in _OPAQUE:
            inner = sizes[id(node)]
            if inner.prose and inner.prose >= _CONTAINER * whole.prose:
                around = whole.text - inner.text
                is_way = (
                    inner.prose == whole.prose
                    and inner.is_titled == whole.is_titled
                    and whole.linked - inner.linked >= _WAYS * around
                )
                return node if is_way or (is_article and inner.bare >= _MOST * whole.bare) else None
    return None


def layout_cell(body: Element) -> Element | None:
    """The cell that holds the text of a page laid out as a table, with menus in the cells around it."""
    if not any(
        node.name == "td" and ("width" in node.attributes or "valign" in node.attributes) for node in body.elements()
    ):
        return None
    sizes = measure(body)
    part, cell = body, None
    while (inner := _inner(part, sizes, is_article=False)) is not None:
        part = inner
        cell = part if part.name == "td" else cell
    return cell

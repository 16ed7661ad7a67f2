"""What a page says about itself: whether it is made for the web, and which boxes are furniture by their names.

These are words that content management systems, themes and newspapers give to comments, related stories, share bars
and the like, and to the text itself, in several languages.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from indexer.read.html.html_tree import Element, HtmlTree

_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_LONGEST_ID = 40  # characters of an id that somebody chose
_LONGEST_NAME = 300  # characters of the names of an element
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
    r"|about.?(?:the.?)?author|biograph|jp.?relatedposts|relatedposts|verwandte|weiterlesen|correlat|relacionad|entry.?(?:meta|utility)"
)
_WEAK = (
    r"meta\b|meta.?data|author|byline|dates?\b|dateline|timestamp|time\b|publish|header|promo|teaser|follow|banner|more\b"
    r"|tools?\b|actions?\b|ratings?\b|votes?\b|reactions?\b|donat|credit|tagged|tags\b|tag.?(?:list|cloud|links)"
    r"|keywords|topics?\b|categor(?:y|ies)|views\b|read.?time|breaking|ticker|carousel|slider|poll\b|quiz|survey|app.?download"
    r"|print\b|feedback|side.?bar|(?<!\S)widgets?\b|bread.?crumb|paginat|pager|navi?\b|navbar|navigation|menu\b|footer"
    r"|masthead|toolbar|copyright|post.?(?:meta|info)|article.?(?:meta|info|tools)|pop.?up|modal|overlay|lightbox"
    r"|comment\b|(?:next|prev|previous)\b|info.?items?\b"
)
_POSTERS = (  # who wrote a post of a thread, and what to do with it
    r"\w*profile\b|user\b|user.?(?:info|details|cell|card|name|title)|signature|poster\b|joined"
    r"|(?:post|message).?(?:author|buttons|menu|stats|user|meta|info)|author\b|answers.?sub.?header"
)
_DATED = re.compile(
    r"\b(?:byline|dateline|(?:pub|publish(?:ed)?|post(?:ed)?|entry|article|story)-?(?:date|time|meta|on)|author-?name)\b"
)
_NAME = re.compile(rf"\b(?:(?P<comments>{_COMMENTS})|(?P<strong>{_STRONG})|(?P<poster>{_POSTERS})|(?P<weak>{_WEAK}))")
_TEXT_NAME = re.compile(
    r"\b(?:article|post|entry|story|blog|news|page|artikel|beitrag|articolo|noticia|nota|main|name|text)s?-*"
    r"(?:body|content|text|copy|contenu|inhalt|texto?|cuerpo|corpo)\b|\b(?:body-?(?:copy|text)|mw-content-text)\b"
)
_PART_NAME = re.compile(
    r"\b(?:hentry|article|artikel|articolo|noticia|story|entry|content|post|detail|editor|cuerpo|corpo|inhalt|contenu)\b"
)
_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|_+")
_NEVER_NAMED = frozenset("html body main article a span b i em strong td tr tbody".split()) | _HEADINGS
_BOXES = frozenset("aside div footer form nav ol table ul".split())  # whose id may say what they are
_SECTIONS = re.compile(r"section|sect\d*|level\d*|chapter")  # classes of parts whose id is that of their heading
_ARTICLE = re.compile(r'"@type"[\s:\[]*"\w*(?:Article|BlogPosting|Review)"')
_SIGNED = frozenset("aside div footer form header p section span time ul".split())  # elements that may be a sign
_SIGNS = 2  # boxes whose names say surely what they are; a page that has them is one made for the web


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
        name = element.name
        if name == "meta":
            key = attributes.get("property", "") or attributes.get("name", "")
            if key.startswith(("og:", "article:", "fb:", "twitter:")):
                found.is_published = True
                found.is_article |= key.startswith("article:") or attributes.get("content") == "article"
        elif name == "link":
            found.is_published |= attributes.get("type", "") in ("application/rss+xml", "application/atom+xml")
        elif name == "script":
            signs += attributes.get("src", "").startswith(("http:", "https:", "//"))
            if attributes.get("type", "") == "application/ld+json":
                found.is_published = True
                found.is_article |= _ARTICLE.search(element.text()) is not None
        elif "itemtype" in attributes or "itemprop" in attributes:
            found.is_published = True
        elif name in _SIGNED:
            kind, is_dated = kind_of(element), _is_named(attributes.get("class", ""), _DATED)
            signs += kind in ("comments", "strong")
            found.is_article |= kind == "comments" or is_dated
    found.is_published |= signs >= _SIGNS
    return found


def kind_of(element: Element) -> str:
    """The kind of furniture that the names of an element say it is, if any."""
    attributes = element.attributes
    if element.name in _NEVER_NAMED or not ("class" in attributes or "id" in attributes):
        return ""
    names = attributes.get("class", "")
    if len(attributes.get("id", "")) < _LONGEST_ID and element.name in _BOXES and not _SECTIONS.fullmatch(names):
        names = f"{names} {attributes.get('id', '')}"
    return _kind_named(names[:_LONGEST_NAME])


@lru_cache(maxsize=4_096)
def _kind_named(names: str) -> str:
    if "hentry" in names:
        return ""
    found = _NAME.search(_PARTS.sub("-", names).lower())
    return (found.lastgroup or "") if found is not None else ""


def is_text(element: Element, *, surely: bool) -> bool:
    """Return whether the names of an element say that it holds the text of the page."""
    if surely and "articleBody" in element.get("itemprop"):
        return True
    names = f"{element.name} {element.get('class')} {element.get('id')}"
    return _is_named(names, _TEXT_NAME if surely else _PART_NAME)


@lru_cache(maxsize=4_096)
def _is_named(names: str, pattern: re.Pattern[str]) -> bool:
    return pattern.search(_PARTS.sub("-", names[:_LONGEST_NAME]).lower()) is not None

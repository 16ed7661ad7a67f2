"""Tell what a page says of itself: that it is published or an article, and what its boxes are by their names."""

import re
from functools import lru_cache

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree

_LONGEST_NAME = 300  # characters of the names of an element
# Words of names; they begin where the name does, or after "-", "_", a digit or before a capital.
_STRONG = (
    r"comments\b|comment.?(?:list|area|form|section|wrap|thread|block|container)|kommentare|commentaires|comentarios"
    r"|commenti\b|reacties|disqus|respond\b|livefyre"
    r"|related|recommend|recirc|taboola|outbrain|trending|popular|most.?(?:read|viewed|shared)|similar|you.?may|zergnet"
    r"|read.?(?:also|next)|more.?(?:stories|news|from|articles|on)\b|up.?next|(?:next|prev\w*).?(?:article|post|story)"
    r"|shar(?:e|ing)\b|share.?(?:daddy|bar|tool|button|link|this|box|icon)|socials?\b|social.?(?:bar|media|link|icon|share)"
    r"|addthis|addtoany|cookie|consent|gdpr|newsletter|subscri(?:be|ption)|sign.?up\b|log.?in\b"
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
    r"\w*profile\b|user\b|user.?(?:info|details|cell|card|name|title)|poster\b|joined"
    r"|(?:post|message).?(?:author|buttons|menu|stats|user|meta|info)|author\b|answers.?sub.?header"
)
_NAME = re.compile(rf"\b(?:(?P<strong>{_STRONG})|(?P<poster>{_POSTERS})|(?P<weak>{_WEAK}))")
_TEXT_NAME = re.compile(
    r"\b(?:article|post|entry|story|blog|news|page|artikel|beitrag|articolo|noticia|nota|main|name|text)s?-*"
    r"(?:body|content|text|copy|contenu|inhalt|texto?|cuerpo|corpo)\b|\b(?:body-?(?:copy|text)|mw-content-text)\b"
)
_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|_+")
_NEVER_NAMED = frozenset("html body main article a span b i em strong td tr tbody".split()) | HEADINGS
_BOXES = frozenset("aside div footer form nav ol table ul".split())  # whose id may say what they are
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml", "application/ld+json"})  # types of links and scripts


def is_published(tree: HtmlTree) -> bool:
    """Return whether a page says that it is made to be shown by other sites, or followed."""
    keys = (meta.get("property") or meta.get("name") for meta in tree.named("meta"))
    types = (element.get("type") for name in ("link", "script") for element in tree.named(name))
    return any(key.startswith(("og:", "article:", "fb:", "twitter:")) for key in keys) or not _FEEDS.isdisjoint(types)


_KINDS = r"(?:\w*Article|BlogPosting|Report|Review)"  # of schema.org
_ARTICLE = re.compile(rf'"@type"\s*+:\s*+(?:\[\s*+)?"{_KINDS}"')
_ARTICLE_ITEM = re.compile(rf"itemtype\s*+=\s*+[\"']?https?://schema\.org/{_KINDS}\b")  # a list of posts has several


def declares_article(tree: HtmlTree, markup: str) -> bool:
    """Return whether a page's metadata says that it is one article: Open Graph or schema.org."""
    for element in tree.named("meta"):
        key = element.get("property") or element.get("name")
        if key.startswith("article:") or (key == "og:type" and element.get("content") == "article"):
            return True
    return _ARTICLE.search(markup) is not None or len(_ARTICLE_ITEM.findall(markup)) == 1


def kind_of(element: Element) -> str:
    """Return the kind of furniture that the names of an element say it is, or an empty text."""
    attributes = element.attributes
    if element.name in _NEVER_NAMED or not ("class" in attributes or "id" in attributes):
        return ""
    names, name = attributes.get("class", ""), attributes.get("id", "")
    if not names and len(name) < 40 and element.name in _BOXES:
        names = name
    return kind_named(names[:_LONGEST_NAME])


@lru_cache(maxsize=4_096)
def kind_named(names: str) -> str:
    """Return the kind of furniture that names say an element is, or an empty text."""
    kinds = [found.lastgroup or "" for found in _NAME.finditer(_PARTS.sub("-", names).lower())]
    return "" if "hentry" in names or not kinds else "strong" if "strong" in kinds else kinds[0]


def is_text(element: Element) -> bool:
    """Return whether the names of an element say that it holds the text of the page."""
    names = f"{element.get('class')} {element.get('id')}"
    return _is_text_named(names[:_LONGEST_NAME]) or "articleBody" in element.get("itemprop")


@lru_cache(maxsize=4_096)
def _is_text_named(names: str) -> bool:
    return _TEXT_NAME.search(_PARTS.sub("-", names).lower()) is not None

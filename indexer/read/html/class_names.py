"""Recognise articles by the metadata of pages, and boilerplate, such as adverts and menus, by class names."""

import re
from functools import lru_cache

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree

_MAX_NAME_CHARS = 300
_STRONG = (  # each alternative must match the beginning of a word in a class name
    r"comments\b|comment.?(?:list|area|form|section|wrap|thread|block|container)|kommentare|commentaires|comentarios"
    r"|related|recommend|recirc|taboola|outbrain|trending|popular|most.?(?:read|viewed|shared)|similar|you.?may|zergnet"
    r"|shar(?:e|ing)\b|share.?(?:daddy|bar|tool|button|link|this|box|icon)|socials?\b|social.?(?:bar|media|link|icon|share)"
    r"|addthis|addtoany|cookie|consent|gdpr|newsletter|subscri(?:be|ption)|sign.?up\b|log.?in\b"
    r"|ads?\b|adv\b|advert|sponsor|adsense|dfp\b|werbung|anzeige|publicidad|author.?(?:bio|box|info|card|desc)"
    r"|about.?(?:the.?)?author|biograph|jp.?relatedposts|verwandte|weiterlesen|correlat|relacionad|entry.?(?:meta|utility)"
)
_WEAK = (
    r"meta\b|meta.?data|author|byline|dates?\b|dateline|timestamp|time\b|publish|header|promo|teaser|follow|banner|more\b"
    r"|tools?\b|actions?\b|ratings?\b|votes?\b|reactions?\b|donat|credit|tagged|tags\b|tag.?(?:list|cloud|links)"
    r"|keywords|topics?\b|categor(?:y|ies)|views\b|read.?time|breaking|ticker|carousel|slider|poll\b|quiz|survey|app.?download"
    r"|print\b|feedback|side.?bar|(?<!\S)widgets?\b|bread.?crumb|paginat|pager|navi?\b|navbar|navigation|menu\b|footer"
    r"|comment\b|(?:next|prev|previous)\b|info.?items?\b"
)
_POSTERS = (  # classes in a forum post: buttons, and details of its author
    r"\w*profile\b|user\b|user.?(?:info|details|cell|card|name|title)|poster\b|joined"
    r"|(?:post|message).?(?:author|buttons|menu|stats|user|meta|info)|author\b|answers.?sub.?header"
)
_BOILERPLATE_NAME = re.compile(rf"\b(?:(?P<strong>{_STRONG})|(?P<poster>{_POSTERS})|(?P<weak>{_WEAK}))")
_TEXT_NAME = re.compile(
    r"\b(?:article|post|entry|story|blog|news|page|artikel|beitrag|articolo|noticia|nota|main|name|text)s?-*"
    r"(?:body|content|text|copy|contenu|inhalt|texto?|cuerpo|corpo)\b|\b(?:body-?(?:copy|text)|mw-content-text)\b"
)
_WORD_BREAKS = re.compile(r"(?<=[a-z])(?=[A-Z])|_+")
_NEVER_NAMED = frozenset("html body main article a span b i em strong td tr tbody".split()) | HEADINGS
_MAY_BE_NAMED_BY_ID = frozenset("aside div footer form nav ol table ul".split())
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml", "application/ld+json"})


def is_published(tree: HtmlTree) -> bool:
    """Return whether a page has metadata for search engines and social media, or a link to a feed."""
    keys = (meta.get("property") or meta.get("name") for meta in tree.find_all("meta"))
    types = (element.get("type") for name in ("link", "script") for element in tree.find_all(name))
    return any(key.startswith(("og:", "article:", "fb:", "twitter:")) for key in keys) or not _FEEDS.isdisjoint(types)


_SCHEMA_ORG_ARTICLES = r"(?:\w*Article|BlogPosting|Report|Review)"
_ARTICLE = re.compile(rf'"@type"\s*+:\s*+(?:\[\s*+)?"{_SCHEMA_ORG_ARTICLES}"')
_ARTICLE_ITEM = re.compile(rf"itemtype\s*+=\s*+[\"']?https?://schema\.org/{_SCHEMA_ORG_ARTICLES}\b")


def declares_article(tree: HtmlTree, markup: str) -> bool:
    """Return whether Open Graph or schema.org metadata declares a single article."""
    for element in tree.find_all("meta"):
        key = element.get("property") or element.get("name")
        if key.startswith("article:") or (key == "og:type" and element.get("content") == "article"):
            return True
    return _ARTICLE.search(markup) is not None or len(_ARTICLE_ITEM.findall(markup)) == 1


def kind_of(element: Element) -> str:
    """Classify an element by its class, or else its id, as `kind_named` does. Return "" if it is not boilerplate."""
    attributes = element.attributes
    if element.name in _NEVER_NAMED or not ("class" in attributes or "id" in attributes):
        return ""
    names, anchor = element.get("class"), element.get("id")
    if not names and len(anchor) < 40 and element.name in _MAY_BE_NAMED_BY_ID:
        names = anchor
    return kind_named(names[:_MAX_NAME_CHARS])


@lru_cache(maxsize=4_096)
def kind_named(names: str) -> str:
    """Classify class names: "strong" (surely boilerplate), "weak" (maybe), "poster" (author of a post) or "" (text)."""
    kinds = [match.lastgroup or "" for match in _BOILERPLATE_NAME.finditer(_WORD_BREAKS.sub("-", names).lower())]
    return "" if "hentry" in names or not kinds else "strong" if "strong" in kinds else kinds[0]


def is_text(element: Element) -> bool:
    """Return whether an element has a class, id or itemprop for main text, such as "post-body" or "articleBody"."""
    names = f"{element.get('class')} {element.get('id')}"
    return _is_text_named(names[:_MAX_NAME_CHARS]) or "articleBody" in element.get("itemprop")


@lru_cache(maxsize=4_096)
def _is_text_named(names: str) -> bool:
    return _TEXT_NAME.search(_WORD_BREAKS.sub("-", names).lower()) is not None

"""What a picture shows, where its alternative text says so: pictures of the text, not signs, logos or ornaments."""

import re
from itertools import islice

from indexer.read.html.html_tree import Element, fold

_LONGEST = 1_000  # characters
_FEWEST_WORDS = 3
_SMALL = 32  # pixels of a sign
_NEAR = 4  # elements around a picture
_AROUND = 600  # characters of what stands around one, and may say the same
_MATH = frozenset({"math", "tex", "latex", "equation", "formula"})
_TEX = re.compile(r"\\[A-Za-z]{2}|[\^_]\{|^\$.*\$$|\w\^\w", re.DOTALL)
_SIGN = re.compile(r"(?:^|[\W_])(?:icons?|logos?|badges?|avatars?|spinner|sprite|emoji)(?:[\W_]|$)", re.IGNORECASE)
_FILE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|avif|bmp)(?=$|[?#])", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_DIGITS = re.compile(r"\s*(\d{1,4})")


def alternative_text(image: Element) -> str:
    """Return what a picture says in the text it stands in, or nothing."""
    attributes = image.attributes
    alt = fold(attributes.get("alt", ""))
    if not alt or len(alt) > _LONGEST or attributes.get("role") in ("presentation", "none"):
        return ""
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    if not _MATH.isdisjoint(names.lower().split()) or _TEX.search(alt):
        return alt
    if not alt.isascii() and not any(map(str.isalnum, alt)):
        return alt  # a character that is drawn, such as an emoji
    source = attributes.get("src", "").rpartition("/")[2]
    if len(_WORD.findall(alt)) < _FEWEST_WORDS or _is_small(image) or _SIGN.search(f"{names} {source}"):
        return ""
    if _FILE.search(alt) or (_SIGN.search(alt) and len(alt.split()) <= 2 * _FEWEST_WORDS):
        return ""
    return f" {alt} " if _is_of_the_text(image, alt) else ""


def _is_small(image: Element) -> bool:
    sizes = [_DIGITS.match(image.get(name)) for name in ("width", "height")]
    return any(size is not None and int(size[1]) <= _SMALL and "%" not in size.string for size in sizes)


def _is_of_the_text(image: Element, alt: str) -> bool:
    """Whether a picture leads nowhere but to itself, and nothing around it says the same."""
    for parent in islice(image.parents, _NEAR):
        if parent.name == "a" and not _FILE.search(parent.get("href")) and "href" in parent.attributes:
            return False
        around = parent.short_text(_AROUND)
        if around is None:
            return True
        if alt.casefold() in fold(around).casefold():
            return False
    return True

"""Tags of templates and components within Markdown: where they end, and which of their words a reader sees.

These are shortcodes of Hugo, tags of Liquid and Jinja, comments of all of them, and of MDX the components and
expressions. What stands between an opening and a closing tag is Markdown like the rest.
"""

import re
from collections.abc import MutableMapping
from typing import Any

IS_MDX = "is_mdx"  # key of the parser's environment: whether there are expressions in braces
_LONGEST = 4_000  # characters of a tag
_LONGEST_COMMENT = 20_000
_BUDGET = 20_000_000  # characters looked at in vain for the ends of tags, in one document
_SHOWN = (  # arguments that are shown to readers
    "title subtitle label header heading headline caption summary description question answer alt alt-text alt_text "
    "text content message tooltip tabName"
).split()
_ARGUMENT = r"(?:^|[\s{,(])[\"']?(?:%s)[\"']?\s{0,9}[:=]\s{0,9}\{?\s{0,9}(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)"
_SHOWN_ARGUMENT = re.compile(_ARGUMENT % "|".join(_SHOWN))
_NAME_ARGUMENT = re.compile(_ARGUMENT % "value|name")  # the label of a tab that has no other
_ITEMS = re.compile(r"\bitems=\{?\s{0,9}\[([^\[\]]*)\]")  # labels of several tabs
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`")
_NAME = re.compile(r"[\s<%/-]*([\w.-]*)")
_PATH = re.compile(r"\S*[/\\]\S*|\S+\.\w{2,5}|\S*[$#]\S*")
_COMPONENT = re.compile(r"</?[A-Z][\w.]*(?=[\s/>])|</?>")
_ELEMENT = re.compile(r"</?([a-z][\w-]*)(?=[\s/>])")
_TAG_PART = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`|[{}<>]")
_END_RAW = re.compile(r"\{%-?\s{0,9}endraw\s{0,9}-?%\}")
_END_COMMENT = re.compile(r"\{%-?\s{0,9}endcomment\s{0,9}-?%\}")
_ESCAPED = re.compile(r"\{\{([<%])/\*([^{}]*)\*/([>%])\}\}|\\(\{\{#)")
_PLAIN_ATTRIBUTE = re.compile(r"\s[\w:-]+=(?:\"[^\"]*\"|'[^']*')")

Environment = MutableMapping[str, Any]
Tag = tuple[int, str]  # where it ends, and the words in it that a reader sees


def tag_at(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    """Return the tag, comment or expression that begins at a place of a text, or None if there is none.

    Args:
        source: the text.
        start: the place; a character must be there.
        end: of the part of the text in which the tag must end.
        environment: of the parser; counts what was looked at in vain, so that hostile texts take linear time.
    """
    opening = source[start : start + 3]
    if opening.startswith("{{"):
        close = _find(source, "}}", start + 2, end, environment)
        return None if close < 0 else (close + 2, _words_of_shortcode(source[start : close + 2]))
    if opening.startswith("{%"):
        return _liquid(source, start, end, environment)
    if opening.startswith("{#") and opening[2:] in (" ", "-", "\n", "#"):
        return _comment(source, "#}", start + 2, end, environment)
    if opening == "{/*":
        return _comment(source, "*/}", start + 3, end, environment)
    if opening.startswith("%%") and not source[start - 1 : start].strip():
        return _comment(source, "%%", start + 2, end, environment)
    if opening.startswith("{") and environment.get(IS_MDX):
        close = _balanced(source, start, end, environment)
        if close < 0:
            return None
        said = _QUOTED.fullmatch(source[start + 1 : close - 1].strip())
        return close, _first(said) if said else ""
    if found := _COMPONENT.match(source, start):
        close = found.end() if found[0][-1] == ">" else _balanced(source, start, end, environment)
        return None if close < 0 else (close, shown_words(source[start + 1 : close - 1]))
    return None


def element_at(source: str, start: int, end: int, environment: Environment) -> tuple[int, str] | None:
    """Return where an HTML tag with values in braces ends, and the tag without these; None if there is none."""
    found = _ELEMENT.match(source, start)
    close = _balanced(source, start, end, environment) if found else -1
    if found is None or close < 0:
        return None
    plain = "".join(_PLAIN_ATTRIBUTE.findall(source[start:close]))
    return close, f"{found[0]}{plain}>"


def shown_words(inside: str, *, is_positional: bool = False) -> str:
    """Return the arguments of a tag that a reader sees, such as its title.

    Args:
        inside: name and arguments, without the signs around them.
        is_positional: whether an argument without a name may be a title.
    """
    name = _NAME.match(inside)
    is_tab = name is not None and "tab" in name[1].lower()
    found = [_first(one) for one in _SHOWN_ARGUMENT.finditer(inside)]
    if is_tab and not found:
        found = [_first(one) for one in _NAME_ARGUMENT.finditer(inside)]
    if is_tab and (items := _ITEMS.search(inside)):
        found += [_first(one) for one in _QUOTED.finditer(items[1])]
    if is_positional and not found and name is not None:
        words = _QUOTED.match(inside[name.end() :].lstrip())
        said = _first(words) if words else ""
        found = [said] if (" " in said or said[:1].isupper()) and not _PATH.fullmatch(said) else []
    return ", ".join(" ".join(one.split()) for one in found)


def unescaped(code: str) -> str:
    """Return code in which escaped tags are written as a reader sees them."""
    return _ESCAPED.sub(lambda one: one[4] or f"{{{{{one[1]}{one[2]}{one[3]}}}}}", code) if "{{" in code else code


def _words_of_shortcode(tag: str) -> str:
    if _ESCAPED.fullmatch(tag):
        return unescaped(tag)
    if tag[2] in "<%":
        return shown_words(tag[3:-3], is_positional=True)
    said = _QUOTED.match(tag[2:-2].strip(" -"))  # a text that is perhaps translated
    return "" if said is None or _PATH.fullmatch(_first(said)) else _first(said)


def _liquid(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    close = _find(source, "%}", start + 2, end, environment)
    if close < 0:
        return None
    inside = source[start + 2 : close]
    name = _NAME.match(inside)
    kind, after = name[1] if name else "", close + 2
    if kind in ("raw", "comment"):
        ending = (_END_RAW if kind == "raw" else _END_COMMENT).search(source, after, min(end, after + _LONGEST_COMMENT))
        if ending:
            return ending.end(), source[after : ending.start()] if kind == "raw" else ""
        _spend(environment, _LONGEST_COMMENT)
    return after, shown_words(inside, is_positional=not kind.startswith(("end", "include", "link", "post_url")))


def _comment(source: str, closer: str, start: int, end: int, environment: Environment) -> Tag | None:
    close = _find(source, closer, start, end, environment, _LONGEST_COMMENT)
    return None if close < 0 else (close + len(closer), "")


def _find(source: str, closer: str, start: int, end: int, environment: Environment, most: int = _LONGEST) -> int:
    if _spend(environment, 0) < 0:
        return -1
    close = source.find(closer, start, min(end, start + most))
    if close < 0:
        _spend(environment, most)
    return close


def _balanced(source: str, start: int, end: int, environment: Environment) -> int:
    """Return the end of an expression or tag, whose braces are balanced; -1 where it has none."""
    if _spend(environment, 0) < 0:
        return -1
    is_tag = source[start] == "<"
    depth = 0
    for part in _TAG_PART.finditer(source, start + is_tag, min(end, start + _LONGEST)):
        sign = part[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
        elif is_tag and depth <= 0 and sign in "<>":
            return part.end() if sign == ">" else -1
        if depth <= 0 and sign == "}" and not is_tag:
            return part.end()
    _spend(environment, 50 * _LONGEST)
    return -1


def _spend(environment: Environment, characters: int) -> int:
    """Return how many characters may still be looked at in vain, having counted these."""
    left: int = environment.get("budget", _BUDGET) - characters
    environment["budget"] = left
    return left


def _first(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None)

"""Extract the visible words of tags: shortcodes of Hugo, tags of Liquid and Jinja, and components of MDX.

No rule depends on the name of a component. An argument is visible if its name is a word such as `title`, if its value
is a sentence, or if the tag describes a field: `<ParamField path="ship" type="string">` becomes "ship, string".
"""

import re
from collections.abc import Iterator, MutableMapping
from typing import Any

IS_MDX = "is_mdx"
_TAG_LIMIT = 4_000
_MAX_COMMENT_LENGTH = 20_000
_MAX_FAILED_CHARS = 20_000_000
_SHOWN = frozenset(
    "title subtitle label header heading headline caption cap summary desc description question answer alt alt_text "
    "text content message tooltip term name children tabName filename file".split()
)
_TITLES = _SHOWN - {"name", "header"}  # `name` and `header` may contain the name of a field
_TECHNICAL = re.compile(
    r"(?:.*(?:id|key|class|className|style|colou?r|icon|href|src|source|url|link|width|height|size|lang|language|value)"
    r"|to|as|is|ref|rel|variant|theme|mode|slot|method|role|align|target|cols?|position)",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(
    r"(?:^|[\s{,(\[])[\"']?(?P<name>[A-Za-z_][\w.:-]*?)[\"']?\s{0,9}(?:(?P<object>:\s{0,9}\{)|[:=]\s{0,9}\{?\s{0,9}"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|`(?P<template>[^`]*)`|(?P<plain>[\d.]+|true|false)\b))"
)
_FLAG = re.compile(r"(?<=\s)[a-z]\w+(?![^\s/>])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w.$\[\]-]*")
_SENTENCE = re.compile(r"(?=[^\W\d_a-z]|.*[.!?]$)(?:.*?(?<!\w)[^\W\d_]{2,}(?!\w)){3}", re.DOTALL)
_TAB_LABELS = re.compile(r"\bitems=\{?\s{0,9}\[([^\[\]]*)\]")
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`")
_NAME = re.compile(r"[\s<%/-]*([\w.-]*)")
_PATH = re.compile(r"[^\s/\\]*+[/\\]\S*|\S+\.\w{2,5}|[^\s$#]*+[$#]\S*")
_ROUTE = re.compile(r"/[^\s.]*")
_COMPONENT = re.compile(r"</?[A-Z][\w.]*(?=[\s/>])|</?>")
ELEMENT = re.compile(r"</?([a-z][\w-]*)(?=[\s/>])")
_TAG_SIGN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`|[{}<>]")
_END_BLOCK = {kind: re.compile(rf"\{{%-?\s{{0,9}}end{kind}\s{{0,9}}-?%\}}") for kind in ("raw", "comment")}
_END_KRAMDOWN_COMMENT = re.compile(r"\{:/(?:comment)?\}")
_ESCAPED = re.compile(r"\{\{([<%])/\*([^{}]*)\*/([>%])\}\}|\\(\{\{#)")
_PLAIN_ATTRIBUTE = re.compile(r"\s[\w:-]+=(?:\"[^\"]*\"|'[^']*')")

Environment = MutableMapping[str, Any]
Tag = tuple[int, str]


def tag_at(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    """Return the end and the visible text of the tag, comment or expression at `start`, or None if there is none.

    To read hostile texts in linear time, failed searches may read only a limited number of characters in total. This
    number is counted in `environment`.
    """
    opening = source[start : start + 3]
    if opening.startswith("{{"):
        close = _find(source, "}}", start + 2, end, environment)
        if close < 0:
            return None
        tag = source[start : close + 2]
        if _ESCAPED.fullmatch(tag):
            return close + 2, unescaped(tag)
        if tag[2] in "<%":
            return close + 2, shown_words(tag[3:-3], is_positional=True)
        words = _first(_QUOTED.match(tag[2:-2].strip(" -")))
        return close + 2, "" if _PATH.fullmatch(words) else words or shown_words(tag[2:-2])
    if opening.startswith("{%"):
        close = _find(source, "%}", start + 2, end, environment)
        if close < 0:
            return None
        inside, after = source[start + 2 : close], close + 2
        name = _NAME.match(inside)
        kind = name[1] if name else ""
        if kind in _END_BLOCK:
            if ending := _END_BLOCK[kind].search(source, after, min(end, after + _MAX_COMMENT_LENGTH)):
                return ending.end(), source[after : ending.start()] if kind == "raw" else ""
            _spend(environment, _MAX_COMMENT_LENGTH)
        return after, shown_words(inside, is_positional=not kind.startswith(("end", "include", "link", "post_url")))
    if source.startswith("{::comment}", start) and _spend(environment, 0):
        ending = _END_KRAMDOWN_COMMENT.search(source, start, min(end, start + _MAX_COMMENT_LENGTH))
        _spend(environment, 0 if ending else _MAX_COMMENT_LENGTH)
        return (ending.end(), "") if ending else None
    closer = ""
    if opening.startswith("{#") and opening[2:] in (" ", "-", "\n", "#"):
        closer = "#}"
    elif opening == "{/*":
        closer = "*/}"
    elif opening.startswith("%%") and not source[start - 1 : start].strip():
        closer = "%%"
    if closer:
        close = _find(source, closer, start + len(closer), end, environment, _MAX_COMMENT_LENGTH)
        return None if close < 0 else (close + len(closer), "")
    is_expression = opening.startswith("{") and environment.get(IS_MDX)
    component = _COMPONENT.match(source, start)
    if not is_expression and not component:
        return None
    is_bare = component and component[0][-1] == ">"
    close = component.end() if component and is_bare else _balanced(source, start, end, environment)
    if close < 0:
        return None
    inside = source[start + 1 : close - 1]
    return close, _first(_QUOTED.fullmatch(inside.strip())) if is_expression else shown_words(inside)


def element_at(source: str, start: int, end: int, environment: Environment) -> Tag | None:
    """Return the end of the HTML tag at `start`, and the tag without attributes such as `a={x}`, or None."""
    element = ELEMENT.match(source, start)
    close = _balanced(source, start, end, environment) if element else -1
    if element is None or close < 0:
        return None
    return close, f"{element[0]}{''.join(_PLAIN_ATTRIBUTE.findall(source[start:close]))}>"


def shown_words(inside: str, *, is_positional: bool = False) -> str:
    """Return the visible arguments of a tag, separated by commas.

    Args:
        inside: the text of the tag, without its delimiters.
        is_positional: whether an argument may be a title without having a name, as in `{{< note "Title" >}}`.
    """
    match = _NAME.match(inside)
    name = match[1].lower() if match else ""
    arguments = list(_ARGUMENT.finditer(inside))
    names = {argument["name"] for argument in arguments if _IDENTIFIER.fullmatch(_value(argument))} - _TITLES
    names |= {argument["name"] for argument in arguments if argument["object"]}
    if "type" in names and not all(map(_TECHNICAL.fullmatch, names - {"type"})):
        words = list(_field_words(inside, arguments))
    else:
        arguments = [argument for argument in arguments if argument["name"] != "name" or not name.endswith("icon")]
        words = [value for argument in arguments if is_text(argument["name"], value := _value(argument))]
    if "tab" in name and (items := _TAB_LABELS.search(inside)):
        words += [_first(item) for item in _QUOTED.finditer(items[1])]
    if is_positional and not words and match:
        title = _first(_QUOTED.match(inside[match.end() :].lstrip()))
        words = [title] if (" " in title or title[:1].isupper()) and not _PATH.fullmatch(title) else []
    return ", ".join(" ".join(value.split()) for value in words if value)


def _field_words(inside: str, arguments: list[re.Match[str]]) -> Iterator[str]:
    is_named = False
    for argument in arguments:
        name, value = argument["name"], _value(argument)
        if argument["object"]:
            yield name
        elif _TECHNICAL.fullmatch(name) or value == "false":
            continue
        elif argument["plain"] == "true":
            yield name
        elif name in _SHOWN or name == "type" or not is_named:
            yield value
        else:
            yield f"{name}: {value}"
        is_named = is_named or bool(argument["object"] or (name != "type" and _IDENTIFIER.fullmatch(value)))
    yield from _FLAG.findall(_ARGUMENT.sub("", inside))


def _value(argument: re.Match[str]) -> str:
    return next((value for value in argument.group("double", "single", "template", "plain") if value is not None), "")


def is_text(name: str, value: str) -> bool:
    """Return whether an argument is visible text: it has a name such as "title", or its value is a sentence."""
    shown = name.rpartition("-")[2] in _SHOWN or (name == "path" and _ROUTE.fullmatch(value) is not None)
    return shown or (_TECHNICAL.fullmatch(name) is None and _SENTENCE.match(value) is not None)


def unescaped(code: str) -> str:
    """Replace escaped tags in code, such as `{{</* name */>}}`, by the tags that they show, such as `{{< name >}}`."""
    return _ESCAPED.sub(lambda tag: tag[4] or f"{{{{{tag[1]}{tag[2]}{tag[3]}}}}}", code) if "{{" in code else code


def _find(source: str, closer: str, start: int, end: int, environment: Environment, limit: int = _TAG_LIMIT) -> int:
    close = source.find(closer, start, min(end, start + limit)) if _spend(environment, 0) else -1
    if close < 0:
        _spend(environment, limit)
    return close


def _balanced(source: str, start: int, end: int, environment: Environment) -> int:
    """Return the end of the expression or tag at `start`, or -1 if it is not closed."""
    if not _spend(environment, 0):
        return -1
    is_tag = source[start] == "<"
    depth = 0
    for match in _TAG_SIGN.finditer(source, start + is_tag, min(end, start + _TAG_LIMIT)):
        sign = match[0]
        depth += (sign == "{") - (sign == "}")
        if is_tag and depth <= 0 and sign in "<>":
            return match.end() if sign == ">" else -1
        if depth <= 0 and sign == "}" and not is_tag:
            return match.end()
    _spend(environment, 50 * _TAG_LIMIT)
    return -1


def _spend(environment: Environment, characters: int) -> bool:
    environment["budget"] = environment.get("budget", _MAX_FAILED_CHARS) - characters
    return bool(environment["budget"] >= 0)


def _first(match: re.Match[str] | None) -> str:
    return next((group for group in match.groups() if group is not None), "") if match else ""

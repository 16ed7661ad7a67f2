"""Show the hidden panels of tabs, accordions and carousels. The control that opens a panel becomes its title.

A hidden element is a panel if a control refers to it, a title precedes it, or it resembles a visible sibling. Lists of
links, dialogs, tooltips and messages stay hidden.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from indexer.read.html.boilerplate import POPUP
from indexer.read.html.html_tree import HEADINGS, MAX_FIRST_NODES, MAX_NODES, MAX_SEARCH_DEPTH, Element, HtmlTree, texts
from indexer.read.html.noise import HIDING, LETTER, NOISE_ROLES, WORD, is_folded, is_menu, is_noise
from indexer.text import reader_notes

_TITLES = HEADINGS | {"dt", "summary", "th", "legend", "caption"}
_PANEL_TITLES = HEADINGS | {"dt", "button", "summary", "input"}
_PANEL_ELEMENTS = frozenset(
    "div section article li dd dl tr tbody ul ol table p pre figure blockquote details fieldset".split()
)
_REFERRING_ELEMENTS = frozenset("button a label li summary input option".split())
_CONTROL_TAGS = frozenset({"a", "button", "label"})
_NO_IDS = frozenset({"", "true", "false"})
_CONTROL_ATTRIBUTES = frozenset(
    "hidden aria-hidden style role aria-expanded aria-controls data-toggle data-bs-toggle onclick".split()
)
_CONTROL_ROLES = frozenset({"tab", "tablist", "button", "switch"})
_EXPANDING = frozenset({"aria-expanded", "aria-controls"})
_TOGGLES = ("data-toggle", "data-bs-toggle")
_OPENING = _EXPANDING.union(_TOGGLES, {"onclick"})
_QUOTED_ID = re.compile(r"['\"]#?([\w-]+)['\"]")
_BLOCKS_IN_BUTTONS = frozenset("div p ul table".split())
_CONTENT_IN_BUTTONS = HEADINGS | {"code", "pre", "kbd", "samp"}
_OPERATION = re.compile(r"^\s*[1-5]\d\d\s*$|/[\w{]+|\w\(\)")  # an HTTP status, a path or a function call
_MAX_TITLE_CHARS = 200


def unfold_panels(tree: HtmlTree) -> None:
    """Show the hidden panels of a page, and convert the controls that open them to text."""
    shallow = (tag for tag in tree.elements if tag.depth < MAX_SEARCH_DEPTH)
    tags = [tag for tag in shallow if tag.name in _CONTROL_TAGS or not _CONTROL_ATTRIBUTES.isdisjoint(tag.attributes)]
    hidden = [element for element in tags if not HIDING.isdisjoint(element.attributes) and is_folded(element)]
    controls = [element for element in tags if _is_opener(element)]
    panels: list[Element] = []
    if hidden:
        referring = (tag for name in _REFERRING_ELEMENTS for tag in tree.find_all(name))
        panels = _show_panels(hidden, {name for tag in (*controls, *referring) for name in _referenced_ids(tag)})
    for element in controls:  # an element that is a heading, or contains a heading or panel, is text and no control
        inside = element.elements(MAX_NODES) if element.get("role") in _CONTROL_ROLES else ()
        is_around = any(tag.name in HEADINGS or tag.get("role") == "tabpanel" for tag in inside)
        if is_around or element.name in _TITLES:
            element.attributes = {name: value for name, value in element.attributes.items() if name != "role"}
    contents = [control for control in controls if _is_content(control)]
    for control in contents:
        bar = control.parent
        if bar is not None and bar.get("role") == "tablist":
            bar.attributes = {}
        if control.name == "button" and not control.contains(_CONTENT_IN_BUTTONS):
            for block in control.elements():  # the text of a <button> is one line, even if it contains blocks
                block.name = "span" if block.name in _BLOCKS_IN_BUTTONS else block.name
        _make_text(control, "div")
        control.fill([node for child in control.children for node in (child, " ")])
    converted = set(map(id, contents))
    controls = [control for control in controls if id(control) not in converted]
    if controls:
        ids = {tag.anchor: tag for tag in reversed([*tree.elements]) if "id" in tag.attributes}
        ids |= {f"by {tag.get('aria-labelledby')}": tag for tag in tree.elements if tag.get("role") == "tabpanel"}
        _name_panels(controls, ids)
        _keep_titles(controls, ids, {id(panel) for panel in panels})


def _is_opener(element: Element) -> bool:
    attributes = element.attributes
    if element.name in ("button", "label") or not _OPENING.isdisjoint(attributes):
        return True
    href = attributes.get("href", "") if element.name == "a" else ""
    leads_nowhere = href == "#" or href.startswith("javascript:")
    return leads_nowhere or attributes.get("role") in _CONTROL_ROLES


def _is_content(control: Element) -> bool:
    """Return whether a button outside titles contains a heading, code, or an HTTP operation such as "GET /ports"."""
    is_button = "button" in (control.name, control.get("role")) and control.name != "a"
    if not is_button or any(parent.name in _TITLES for parent in control.parents(4)):
        return False
    texts = [text for text, _ in control.leading_texts()]
    return control.contains(_CONTENT_IN_BUTTONS) or (len(texts) > 1 and any(map(_OPERATION.search, texts)))


def _name_panels(controls: Sequence[Element], ids: Mapping[str | None, Element]) -> None:
    """Insert the text of each tab before its panel. If tabs do not refer to panels, match them by their order."""
    bars: dict[int, tuple[Element, list[Element]]] = {}
    for tab in controls:
        if tab.parent is not None and (tab.name == "label" or tab.get("role") == "tab"):
            around = tab.parent.parent if tab.parent.name == "li" else None
            bar = next((parent for parent in tab.parents(3) if parent.get("role") == "tablist"), around or tab.parent)
            bars.setdefault(id(bar), (bar, []))[1].append(tab)
    titles: dict[int, Element] = {}
    holders: dict[int, Element] = {}
    for bar, tabs in bars.values():
        panels = [panel for tab in tabs if (panel := _target(tab, ids)) is not None]
        names = [tag.text() for tag in tabs]
        if len({id(panel) for panel in panels}) != len(names):
            siblings = bar.parent.tags if bar.parent is not None else []
            after = next((sibling for tag, sibling in pairwise(siblings) if tag is bar), None)
            if bar.tags and len(bar.tags[-1].tags) == len(names):  # the element with the tabs also contains the panels
                after = bar.tags[-1]
            has_text = after and any(isinstance(node, str) and not node.isspace() for node in after.children)
            panels = after.tags if after and not has_text else []
        for name, panel in zip(names, panels, strict=True) if len(names) == len(panels) > 1 else ():
            first_words = next((text.strip() for text, _ in panel.leading_texts() if text.strip()), "")
            if panel.parent is not None and first_words != name.strip():
                titles[id(panel)] = title = Element("p", {}, panel.parent)
                title.fill([name])
                holders[id(panel.parent)] = panel.parent
    for holder in holders.values():
        holder.fill([node for child in holder.children for node in (titles.get(id(child), ""), child)])


def _show_panels(hidden: Sequence[Element], targets: Collection[str]) -> list[Element]:
    """Show and return the hidden elements that are panels. `targets` are the ids and classes that controls refer to."""
    folded = {id(element) for element in hidden}
    panels: list[Element] = []
    prose: set[int] = set()
    for parent in {id(element.parent): element.parent for element in hidden}.values():
        children = parent.tags if parent is not None else []
        open_ones = [child for child in children if id(child) not in folded]
        kinds = {kind for child in open_ones for kind in _kinds(child)}
        before: Element | None = None
        for child in children:
            if id(child) not in folded:
                before = child
                continue
            words = len(WORD.findall(_leading_words(child)))
            if not words or _is_popup(child):
                continue
            is_panel = child.get("role") == "tabpanel" or child.get("hidden") == "until-found"
            if not is_panel and is_menu(child):
                continue
            if words >= 20 and not is_panel:
                prose.add(id(child))
            is_like_open_ones = words > 1 and not kinds.isdisjoint(_kinds(child))
            is_titled = before is not None and words >= 5 and _is_title(before)  # a shorter text may be a message
            if is_panel or is_like_open_ones or is_titled or not _ids_of(child).isdisjoint(targets):
                panels.append(child)
    if not prose <= {id(panel) for panel in panels}:
        reader_notes.add("hidden text was left out: no control on the page shows it")
    for panel in panels:
        panel.attributes = {name: value for name, value in panel.attributes.items() if name not in HIDING}
    return panels


def _ids_of(panel: Element) -> set[str]:
    values = {value for key, value in panel.attributes.items() if key == "id" or key.startswith("data-")}
    return (values - _NO_IDS) | {f".{name}" for name in panel.classes}


def _kinds(element: Element) -> set[tuple[str, str]]:
    names = element.classes or ([""] if element.name in ("tr", "li", "dd") else [])
    return {(element.name, name) for name in names}


def _ids_in(key: str, value: str) -> Iterable[str]:
    if key == "aria-controls" or key.startswith("data-"):
        return [word.removeprefix("#") for word in value.split()] if len(value) < _MAX_TITLE_CHARS else ()
    if key == "onclick" or (key == "href" and value.startswith("javascript:")):
        return _QUOTED_ID.findall(value)
    return (value[1:],) if key == "href" and value.startswith("#") else ()


def _referenced_ids(control: Element) -> Iterator[str]:
    return (name for key, value in control.attributes.items() for name in _ids_in(key, value))


def _target(control: Element, ids: Mapping[str | None, Element]) -> Element | None:
    names = (*_referenced_ids(control), f"by {control.get('id')}")  # a panel may refer to its tab by `aria-labelledby`
    return next((ids[name] for name in names if name in ids), None)


def _is_popup(element: Element) -> bool:
    if POPUP.search(f"{element.get('class')} {element.get('id')}"):
        return True
    return element.get("role") in NOISE_ROLES or "aria-modal" in element.attributes


def _leading_words(element: Element) -> str:
    return " ".join(" ".join(text for text, _ in element.leading_texts()).split())


def _is_title(element: Element) -> bool:
    """Return whether an element is a heading or a control, or has a short text with a heading or a control."""
    inside = element.elements(MAX_FIRST_NODES) if element.short_text(_MAX_TITLE_CHARS) is not None else ()
    return any(tag.name in _PANEL_TITLES or tag.get("role") in ("button", "tab") for tag in (element, *inside))


def _keep_titles(controls: Sequence[Element], ids: Mapping[str | None, Element], unfolded: Collection[int]) -> None:
    """Convert controls to text if they serve as titles.

    A control is a title if it is the only text of a heading, opens a panel, or is one of several similar controls that
    precede panels. `unfolded` has the Python `id()` of each panel that was hidden before.
    """
    next_siblings: dict[int, Element] = {}
    for parent in {id(control.parent): control.parent for control in controls}.values():
        next_siblings |= {id(tag): after for tag, after in pairwise(parent.tags if parent is not None else ())}
    alike: dict[tuple[object, ...], list[Element]] = defaultdict(list)
    for control in controls:
        if control.name in _TITLES or not LETTER.search(_leading_words(control)):
            continue
        target = _target(control, ids)
        is_opener = id(target) in unfolded or not _EXPANDING.isdisjoint(control.attributes)
        panel = target if is_opener and target is not None else next_siblings.get(id(control))
        titles = _TITLES | {"td"} if is_opener else _TITLES
        title = next((parent for parent in control.parents() if parent.name in titles), None)
        if title is not None:
            if not any(LETTER.search(text) for text, _ in texts(title.children, is_noise, MAX_NODES)):
                _make_text(control, "span")
        elif control.get("role") == "tab":
            continue
        elif panel is not None and panel.name in _PANEL_ELEMENTS and not _is_popup(panel) and not is_menu(panel):
            alike[control.name, control.classes, panel.name, panel.classes, is_opener].append(control)
    openers = [control for key, group in alike.items() if len(group) > 1 or key[-1] for control in group]
    names = [_leading_words(control) for control in openers]
    counts = Counter(names)
    for control, name in zip(openers, names, strict=True):
        if counts[name] == 1:  # a label that is repeated, such as "Show", is not a title
            _make_text(control, "p")


def _make_text(control: Element, name: str) -> None:
    control.name = name
    control.attributes = {key: value for key, value in control.attributes.items() if key == "id"}

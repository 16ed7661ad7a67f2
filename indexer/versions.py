"""Versions of a manual, learnt from addresses: `/docs/17/`, `/v2.1/`, `/en/stable/`, `manual-2.4`.

A part of an address that looks like a version is one if pages below it have counterparts: the same rest of the address
behind another such part in its place, with the same title or an alike beginning. So neither the years of a blog nor the
pages of a list are versions. They are learnt, and hold, within one source, as another may be a stranger's; a host is no
version. The manifest keeps them, as beginnings of addresses.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from indexer.filter import Filter

Versions = Mapping[str, tuple[str, str]]
"""By source, line feed and beginning of an address: its place, which has `*` for the version, and the version."""

_SHARE = 0.25  # of the pages of a version, on average, that have a counterpart
_NEAR = 22  # bits in which signatures of alike texts differ, of 64; those of others differ in half of them
_UNRELEASED = "dev devel develop development main master trunk next nightly edge unstable canary preview beta".split()
_NEWEST = "latest current stable".split()  # the last one is the newest
_MARK = r"(?:a|b|c|m|rc|cr|alpha|beta|dev|pre|preview|snapshot|nightly|canary)(?:[-_.]?\d+(?:\.\d+)*)?"
_PART = re.compile(
    rf"(?:(?P<name>[a-z]+(?:[-_.][a-z]+)*)(?P<joint>[-_.]?))??"
    rf"(?:(?P<number>\d{{1,4}}(?:[._-]\d{{1,8}}){{0,3}}(?:[._-]x)?)(?:(?P<mark>[-_.]?{_MARK})|[-_.](?:final|ga|lts|stable))?"
    rf"|(?P<word>{'|'.join(_UNRELEASED + _NEWEST)}))(?P<end>\.[a-z]{{2,5}})?",
    re.IGNORECASE,
)
_VERSION_NAMES = ("", "v", "ver", "version", "r", "rel", "release")  # before a number, where it is the name of nothing
_NUMBERS = re.compile(r"[\d.]+")
_JOINTS = re.compile(r"(?<=\d)[_-](?=[\dx])")
_LONGEST = 40  # characters of a part
_HOST = 2  # its number among the parts
_LETTER = re.compile(r"[^\W\d_]")


class Edition(NamedTuple):
    """A page in one of its versions, or an address as one part of it may be a version."""

    page: tuple[str, str]  # place and the rest of the address: the same in all versions
    version: str
    beginning: str  # of the address, up to the version
    is_plain: bool = False  # one whole number, which many things have that are no versions


def learn(documents: Iterable[tuple[str, str, str, int]]) -> dict[str, tuple[str, str]]:
    """Learn versions from all documents of a collection: source, address, title and signature of the first passage."""
    sources: dict[str, list[tuple[str, str, int]]] = {}
    for source, url, title, signature in documents:
        sources.setdefault(source, []).append((url, title, signature))
    return {
        f"{source}\n{beginning}": place_and_version
        for source in sorted(sources)
        for beginning, place_and_version in _learn(sources[source]).items()
    }


def _learn(documents: Iterable[tuple[str, str, int]]) -> dict[str, tuple[str, str]]:
    """Learn the versions of one source, by beginning."""
    pages: dict[tuple[str, str], list[tuple[Edition, str, int]]] = {}
    for url, title, signature in documents:
        for reading in editions_of(url):
            bare = _NUMBERS.sub("", title.replace(reading.version, ""))
            pages.setdefault(reading.page, []).append((reading, bare, signature))
    known, paired = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)  # pages, by place
    versions: dict[str, tuple[str, str]] = {}
    for (place, rest), readings in pages.items():
        are_plain = all(reading.is_plain for reading, *_ in readings)
        if are_plain and not _LETTER.search(rest):
            continue  # as page/2, or the list of a year
        known[place].update(reading.beginning for reading, *_ in readings)
        alike = dict[str, tuple[str, str]]()
        in_order = sorted(readings, key=lambda each: order(each[0].version))
        for (one, title, signature), (other, its_title, its_signature) in pairwise(in_order):
            agreeing = (title == its_title) + ((signature ^ its_signature).bit_count() <= _NEAR)
            if one.version != other.version and agreeing > are_plain:
                alike |= {each.beginning: (place, each.version) for each in (one, other)}
        paired[place].update(alike.keys())
        versions |= alike
    shares = {place: sum(paired[place][each] / of[each] for each in of) / len(of) for place, of in known.items()}
    return {each: found for each, found in sorted(versions.items()) if shares[found[0]] >= _SHARE}


def editions_of(url: str) -> Iterator[Edition]:
    """Yield an address as each of its parts that looks like a version may be one."""
    parts = url.partition("?")[0].split("/")
    for number, (part, beginning) in enumerate(zip(parts, accumulate(parts, "{}/{}".format), strict=True)):
        found = _PART.fullmatch(part) if len(part) <= _LONGEST and (number != _HOST or parts[1]) else None
        if found and not ("-" in (found["number"] or "") and not found["name"]):  # which is a date
            name = (found["name"] or "").lower()
            version = found["word"] or _JOINTS.sub(".", found["number"] + (found["mark"] or ""))
            is_named = name not in _VERSION_NAMES
            before = beginning.removesuffix(part) + (name + found["joint"] if is_named else "")
            is_plain = version[0].isdigit() and "." not in version and (is_named or not name)
            place = f"{before}*{found['end'] or ''}"
            yield Edition((place, url[len(beginning) :].strip("/")), version.lower(), beginning, is_plain)


def order(version: str) -> tuple[int, tuple[float, ...], str]:
    """Return what versions are sorted by: those that are not released first, then numbers, `latest` and such last."""
    if version in _NEWEST:
        return 2, (_NEWEST.index(version),), ""
    number, mark = re.fullmatch(r"([\d.]*+)(.*)", version).groups()  # type: ignore[union-attr]  # it matches anything
    parts = tuple(float(each) for each in number.split(".") if each)
    return (1, (*parts, float("inf")), "") if mark == "x" else (int(not mark), parts, mark)


def edition_at(url: str, source: str, versions: Versions) -> Edition | None:
    """Return which version of a page of a source is at an address, None where that is not known."""
    for beginning in accumulate(url.partition("?")[0].split("/"), "{}/{}".format):
        if found := versions.get(f"{source}\n{beginning}"):
            return Edition((f"{source}\n{found[0]}", url[len(beginning) :].strip("/")), found[1], beginning)
    return None


def narrowed(only: Filter, versions: Versions) -> Filter:
    """Return a filter with the beginnings of addresses in place of versions, so that every store can apply it."""
    also = frozenset(frozenset(narrowed(each, versions) for each in alternatives) for alternatives in only.also)
    bare = replace(only, version=(), also=also)
    if not only.version:
        return bare
    places: dict[tuple[str, str], dict[str, list[str]]] = {}  # beginnings by source and place, and version
    for key, (place, version) in versions.items():
        source, _, beginning = key.rpartition("\n")
        places.setdefault((source, place), {}).setdefault(version, []).append(beginning)
    beginnings: dict[str, list[str]] = {}
    for (source, _), by_version in places.items():
        newest = max(by_version, key=order)
        for wanted in (each.lower().removeprefix("v") for each in only.version):
            for version, some in by_version.items():
                is_newest = wanted in _NEWEST and version == newest and wanted not in by_version
                is_within = wanted.endswith(".x") and f"{version}.".startswith(wanted[:-1])
                if version == wanted or is_within or is_newest:
                    beginnings.setdefault(source, []).extend(some)
    by_source = [Filter(source=(source,), url_prefix=tuple(some)) for source, some in beginnings.items()]
    return bare & Filter.any_of(by_source)

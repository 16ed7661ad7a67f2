"""Compare the texts of pages of one site, to detect wrong canonical addresses and views of a page.

A view, such as a print version, has the same text as the page. The addresses of views follow a pattern, such as
`?print`. The shingles of a text are the hashes of all runs of three words. Texts are compared by samples, which are
their lowest hashes (A. Broder, "On the resemblance and containment of documents", 1997).
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Self
from urllib.parse import parse_qsl, urlsplit
from zlib import crc32

from indexer.generation.previous import PreviousGeneration
from indexer.read.formats import HTML, effective_type, reader_of
from indexer.records import Extraction, Page, PageRecord

_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7a3]|[^\W_\u3040-\u9fff\uac00-\ud7a3]+")  # each CJK character is a word
_WITH_DIGIT = re.compile(r"\b[^\W\d]*+\d\w*+")
_MAX_CHARACTERS = 200_000
_MAX_SHORT_TEXT_SHINGLES = 30
_SAMPLE_SIZE = 128
_SCATTER = 0x9E3779B1  # a multiplier that spreads the CRCs of similar words
_MIN_TEXT_SHARE, _MIN_LINK_SHARE = 0.8, 0.95
_MIN_TEXT_SHARE_WITH_NOTE = 0.65  # lower, because a print version may add words, such as "page history"
_MAX_DIFFERENT, _MAX_DIFFERENT_SHARE = 8, 0.25
_MAX_WORD_LIKE_PATH = 3  # characters; a short path such as `/in` may also be a word of the text
_MIN_VOTES, _VOTE_AGAINST = 3, -2
_SUFFIX, _SUFFIXES = re.compile(r"(?<=.)\.[A-Za-z]\w{0,9}$"), re.compile(r"(\.[A-Za-z]\w{0,9}){0,2}")
_PLAIN_READERS = frozenset({"plain", "restructured"})


def text_of(page: Page) -> str:
    """Return the text of a page: parsed content, or the body of plain text. It is empty for other unparsed pages."""
    if page.reading is None:
        reader = reader_of(effective_type(page.content_type, urlsplit(page.url).path))
        return page.body[: 4 * _MAX_CHARACTERS].decode("utf-8", "replace") if reader in _PLAIN_READERS else ""
    content = page.reading.content
    if not isinstance(content, Extraction):
        return ""
    headings = dict.fromkeys(heading for section in content.sections for heading in section.path)
    return "\n".join([content.title or "", *headings, *(section.text for section in content.sections)])


def shingles(text: str) -> frozenset[int]:
    """Return a 32-bit hash of each run of three words. Case and punctuation are ignored."""
    words = _WORD.findall(text[:_MAX_CHARACTERS].casefold())
    triples = (f"{first} {second} {third}" for (first, second), (_, third) in pairwise(pairwise(words)))
    runs = triples if len(words) > 2 else words
    return frozenset(crc32(run.encode("utf-8", "replace")) * _SCATTER & 0xFFFFFFFF for run in runs)


def shingles_without_address(page: Page) -> frozenset[int]:
    """Remove a page's address and words with digits, which differ between soft 404 pages, and return its shingles."""
    text, path = text_of(page), urlsplit(page.requested).path
    for name in (page.requested, path, path.strip("/")) if len(path) > _MAX_WORD_LIKE_PATH else ():
        text = text.replace(name, " ")
    return shingles(_WITH_DIGIT.sub(" ", text))


def _words_of(page: Page) -> frozenset[str]:
    return frozenset(_WORD.findall(text_of(page)[:_MAX_CHARACTERS].casefold()))


def is_same_answer(page: Collection[int], missing: Collection[int]) -> bool:
    """Return whether a page is almost the same as the response for a missing page. Both are given as shingles."""
    different = len({*page}.difference(missing))
    return bool(page) and different <= _MAX_DIFFERENT and different <= _MAX_DIFFERENT_SHARE * len(page)


def is_within(text: Collection[int], other: Collection[int]) -> bool:
    """Return whether `text` is empty or mostly contained in `other`. Both are given as shingles."""
    return _is_in(Sample.of(text), Sample.of(other))


@dataclass(frozen=True, slots=True)
class Sample:
    """The lowest hashes of a set in ascending order. `is_all` is True if the set has no other hashes."""

    lowest: "array[int]"
    is_all: bool

    @classmethod
    def of(cls, hashes: Collection[int]) -> Self:
        """Return the sample of a set of 32-bit hashes."""
        return cls(array("I", sorted(hashes)[:_SAMPLE_SIZE]), len(hashes) <= _SAMPLE_SIZE)

    def share_in(self, other: "Sample") -> float | None:
        """Estimate the share of this set that `other` contains. Returns None if the ranges of hashes do not overlap."""
        end = len(self.lowest) if other.is_all else bisect_right(self.lowest, other.lowest[-1])
        return len({*self.lowest[:end]}.intersection(other.lowest)) / end if end else None


class SiteTexts:
    """Stores samples of the texts of one site's pages, and address patterns of views, such as print versions."""

    def __init__(self, earlier: PreviousGeneration) -> None:
        self._earlier = earlier
        self._texts: dict[str, Sample] = {}
        self._links: dict[str, Sample] = {}
        # words of short pages by address; these are compared if a view has markup, which changes most shingles
        self._words: dict[str, frozenset[str]] = {}
        self._url_by_name: dict[str, str] = {}
        self._pattern_votes: dict[str, int] = {}

    def add(self, page: Page | PageRecord, text: Collection[int]) -> None:
        """Add an indexed page. `text` contains the shingles of its text."""
        url = page.url
        if text:
            self._texts[url] = Sample.of(text)
        if isinstance(page, Page) and 0 < len(text) <= _MAX_SHORT_TEXT_SHINGLES:
            self._words[url] = _words_of(page)
        self._links[url] = _sample_links(page.links)
        self._url_by_name.setdefault(_base_name(url), url)

    def has_text(self, url: str, text: Collection[int]) -> bool:
        """Return whether the page at an address contains a text (as shingles). True if the page is unknown."""
        sample = self._sample(url)
        return sample is None or _is_in(Sample.of(text), sample)

    def is_view(self, page: Page, text: Collection[int], referrer: str) -> bool:
        """Return whether a page is a view, such as a print version, of its referrer or of a page with the same name."""
        if not text:
            return False
        sample = Sample.of(text)
        originals = {referrer, self._url_by_name.get(_base_name(page.url), "")} - {"", page.url}
        is_same = any(self._is_view_of(page, sample, original) for original in originals)
        pattern = view_pattern(referrer, page.url) if referrer else None
        if pattern is not None and (is_same or pattern in self._pattern_votes):
            self._pattern_votes[pattern] = self._pattern_votes.get(pattern, 0) + (1 if is_same else _VOTE_AGAINST)
        return is_same

    def has_view_address(self, url: str, referrer: str) -> bool:
        """Return whether a link from `referrer` has the same address pattern as several views, such as `*/print`."""
        return bool(self._pattern_votes) and self._pattern_votes.get(view_pattern(referrer, url) or "", 0) >= _MIN_VOTES

    def is_collection(self, text: Collection[int]) -> bool:
        """Return whether a text contains the texts of at least half of the pages, as llms-full.txt does."""
        hashes = {*text}
        samples = [sample.lowest for sample in self._texts.values()]
        inside = sum(len(hashes.intersection(lowest)) >= _MIN_TEXT_SHARE * len(lowest) for lowest in samples)
        return inside > 1 and 2 * inside >= len(self._texts)

    def _is_view_of(self, page: Page, sample: Sample, original: str) -> bool:
        original_sample = self._sample(original)
        if original_sample is None:
            return False
        has_all = _is_in(original_sample, sample)
        if reader_of(page.content_type) != HTML:
            if original in self._words and view_pattern(original, page.url) is not None:
                words, its_words = _words_of(page), self._words[original]
                has_words = len(words & its_words) >= _MIN_TEXT_SHARE * len(its_words)
                return has_words and len(words - its_words) <= _MAX_DIFFERENT
            return _is_in(sample, original_sample, _MIN_TEXT_SHARE_WITH_NOTE if has_all else _MIN_TEXT_SHARE)
        has_pattern = original in self._links and view_pattern(original, page.url) is not None
        if not has_pattern or not has_all or not _is_in(sample, original_sample):
            return False
        # A view has the same links as its page. A translation or other version also links to its counterparts.
        share = _sample_links({*page.links} - {page.url, original}).share_in(self._links[original])
        return share is None or share >= _MIN_LINK_SHARE

    def _sample(self, url: str) -> Sample | None:
        """Return the sample of a page's text in this build or the previous build, or None if neither has the page."""
        if url not in self._texts and (record := self._earlier.page(url)) and record.outcome.is_indexed:
            _, chunks, _ = self._earlier.read(self._earlier.document(url)[0])
            self._texts[url] = Sample.of(shingles("\n".join(f"{chunk.section}\n{chunk.text}" for chunk in chunks)))
        return self._texts.get(url)


def view_pattern(page: str, link: str) -> str | None:
    """Return the pattern that turns the address of a page into the address of a link on it, or None.

    In a pattern, `*` is the name of the page. For example, `>_sources/*.rst.txt` adds a folder, `blob>raw/*` replaces a
    folder, `*/print` adds a segment, `?plain` adds a query, and `/edit?page=*` passes the name in the query.
    """
    page_url, link_url = urlsplit(page), urlsplit(link)
    query = parse_qsl(link_url.query, keep_blank_values=True)
    if page_url.path == link_url.path:
        return f"?{'&'.join(name for name, _ in query)}" if query and page_url.query != link_url.query else None
    steps, paths = _segments(link_url.path), _page_paths(page_url.path)
    names = {"/".join(path[start:]) for path in (*paths, _segments(page_url.path)) for start in range(len(path))}
    if any(value.strip("/") in names for _, value in query):
        pairs = (f"{name}={'*' if value.strip('/') in names else value}" for name, value in query)
        return f"{link_url.path}?{'&'.join(pairs)}"
    for path in paths:
        if path and steps[:-1] == path:
            return f"*/{steps[-1]}"
        if not path or not steps or not steps[-1].startswith(path[-1]):
            continue
        suffix, removed, added = steps[-1][len(path[-1]) :], path[:-1], steps[:-1]
        while removed and added and removed[0] == added[0]:
            removed, added = removed[1:], added[1:]
        while removed and added and removed[-1] == added[-1]:
            removed, added = removed[:-1], added[:-1]
        if _SUFFIXES.fullmatch(suffix) and len(removed) <= 1 and len(added) <= 2:
            return f"{'/'.join(removed)}>{'/'.join(added)}/*{suffix}?{'&'.join(name for name, _ in query)}"
    return None


def _segments(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


def _page_paths(path: str) -> list[list[str]]:
    """Split a path into segments, without a file suffix. Return two lists for a folder: with and without `index`."""
    *folder, last = [*_segments(path), *([""] if path.endswith("/") else [])]
    name = _SUFFIX.sub("", last) or "index"
    return [[*folder, name], folder] if name == "index" else [[*folder, name]]


def _base_name(url: str) -> str:
    """Return the path of an address without suffixes and without `index`."""
    folder, _, last = urlsplit(url).path.rpartition("/")
    name = _SUFFIX.sub("", _SUFFIX.sub("", last))
    return folder if name in ("", "index") else f"{folder}/{name}"


def _is_in(text: Sample, other: Sample, min_share: float = _MIN_TEXT_SHARE) -> bool:
    return not text.lowest or (text.share_in(other) or 0) >= min_share


def _sample_links(urls: Collection[str]) -> Sample:
    return Sample.of({crc32(url.encode()) for url in urls})

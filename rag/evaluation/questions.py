"""Generate questions and their answers from the headings, comments, links and references in indexed documents.

A section answers its heading, a function answers its comment, a linked page answers the text of the link, and a cited
section answers the sentence that cites it. Each question is removed from the passages, because any search would find a
passage that repeats the question word for word.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from indexer.generation.lexical.analysis import terms_in
from indexer.read.formats import is_source_code
from indexer.records import SEPARATOR
from rag.errors import DatasetError
from rag.insights.report import write_beir
from rag.query.results import section_within, without_number

Documents = Callable[[], Iterable[Mapping[str, Any]]]
Links = Sequence[tuple[str, str, str]]

MARK = "from-index.json"  # a folder with this file may be overwritten
SEED = 0
MAX_PER_KIND = 250
_WITHOUT_TITLE_SHARE = 0.5
_QUESTION_MARKS = "?？؟;⁇"  # the semicolon is the Greek question mark
_HEADING_BYTES = range(12, 200)  # UTF-8: 4 Chinese characters say as much as 12 Latin letters
_MIN_TERMS = 2
_MIN_SENTENCE_WORDS = 6
_MAX_REFERENCE_WORDS = 8
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_WORD = re.compile(r"[^\s()\[\]\"'“”«»„,;:]+")
_FIRST_SENTENCE = re.compile(r".{12,300}?(?:[.!?](?=\s|$)|$)", re.DOTALL)
_COMMENT = re.compile(r"(?:[ \t]*(?:/\*.*?\*/|(?://|#(?!include|define|if|endif)|--)[^\n]*)[ \t]*\n)+", re.DOTALL)
_DOCSTRING = re.compile(r"(?<=:\n)[ \t]*[rRuU]?(\"\"\"|''')(.*?)\1[ \t]*\n?", re.DOTALL)
_MARKERS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*|///?!?|#+|--)?[ \t]*|(?<!\*)\*++/[ \t]*$", re.MULTILINE)
_TAGS = re.compile(r"^[^\S\n]*+(?:[@\\]\w|:\w+ \w+:|\w+:$|-{3,}|={3,}|>>> |Copyright|SPDX)", re.MULTILINE)


class Question(NamedTuple):
    """A question, and the ids of its answers. `removed` is a text to delete from the passages in `removed_from`."""

    kind: Literal["question", "heading", "comment", "link", "reference"]
    text: str
    answers: Sequence[str]
    title: str
    removed: str
    removed_from: Sequence[str]


class TargetPassage(NamedTuple):
    """A passage of a dataset. Its `id` is the address of its document, often with an anchor such as #usage."""

    id: str
    title: str
    headings: str
    text: str
    is_code: bool


def write_questions(folder: Path, documents: Documents, facts: Mapping[str, Any], links: Links = ()) -> dict[str, Any]:
    """Write the passages of an index and questions about them as a BEIR dataset. The same index gives the same files.

    Args:
        folder: see `write_beir`.
        documents: function that returns all documents, each JSON-ready with its passages. It is called several times.
        facts: entries to add to the report.
        links: links between the documents, each as the address of its page, the address of its target, and its text.

    Returns:
        The report of `write_beir`, and in `kinds` the number of questions of each kind.

    Raises:
        DatasetError: no question can be generated from the index.
        InsightsError, OSError: see `write_beir`.
    """
    rows, questions = make_dataset(documents, links)
    if not questions:
        raise DatasetError("the index has no heading, comment, link or reference that makes a question")
    judged = [(each.text, {"kind": each.kind}, dict.fromkeys(each.answers, 1)) for each in questions]
    return write_beir(folder, MARK, rows, judged, {**facts, "kinds": dict(Counter(each.kind for each in questions))})


def make_dataset(documents: Documents, links: Links = ()) -> tuple[Iterator[dict[str, str]], list[Question]]:
    """Return the passages of an index as JSON objects for corpus.jsonl, and questions about the passages."""
    headings, comments = _headings(_passages(documents)), _comments(_passages(documents))
    references = _references(_passages(documents), headings)
    chooser = random.Random(SEED)  # noqa: S311 - no secret
    by_kind: dict[str, list[Question]] = defaultdict(list)
    for question in [*headings.values(), *comments, *references, *_links(_passages(documents), links)]:
        by_kind[question.kind].append(question)
    questions: list[Question] = []
    for candidates in by_kind.values():
        chooser.shuffle(candidates)
        sample = candidates[:MAX_PER_KIND]
        questions += [
            _without_title(question) if chooser.random() < _WITHOUT_TITLE_SHARE else question for question in sample
        ]
    return _rows(_passages(documents), questions), questions


def _passages(documents: Documents) -> Iterator[TargetPassage]:
    for document in documents():
        is_code, uses = is_source_code(document["content_type"]), Counter[str]()
        for passage in document["passages"]:
            url = passage["url"]
            uses[url] += 1
            name = url if uses[url] == 1 else f"{url}{'~' if '#' in url else '#'}{uses[url]}"
            headings = section_within(document["title"], passage["section"])
            yield TargetPassage(name, document["title"], headings, passage["text"], is_code)


def _headings(passages: Iterable[TargetPassage]) -> dict[str, Question]:
    """Return headings that occur only once, as questions by text. The passages under a heading answer it."""
    answers: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in passages:
        if not each.is_code:
            answers[each.id.partition("#")[0], each.title, each.headings].append(each.id)
    names = {key: (key[2] or key[1]).split(SEPARATOR) for key in answers}
    uses = Counter(path[-1] for path in names.values())
    questions = {}
    for (url, title, headings), ids in answers.items():
        *above, heading = names[url, title, headings]
        text = without_number(heading)
        kind: Literal["question", "heading"] = "question" if text.endswith(tuple(_QUESTION_MARKS)) else "heading"
        is_long = len(text.encode()) in _HEADING_BYTES and len(terms_in(text, None)) > _MIN_TERMS
        if uses[heading] == 1 and is_long:
            questions[text] = Question(kind, text, ids, " ".join([title, *above] if headings else above), heading, ids)
    return questions


def _comments(passages: Iterable[TargetPassage]) -> Iterator[Question]:
    """Yield the first sentence of each function's comment or docstring as a question. The function answers it."""
    for each in passages:
        if not each.is_code or not each.headings:
            continue
        comment = _COMMENT.match(each.text) or _DOCSTRING.search(each.text)
        if not comment or len(each.text) < 2 * len(comment[0]):  # more comment than code
            continue
        written = comment[2] if comment.re is _DOCSTRING else comment[0]
        text = _TAGS.split(_MARKERS.sub("", written).strip("\n"), maxsplit=1)[0]
        sentence = _FIRST_SENTENCE.match(" ".join(text.split("\n\n")[0].split()))
        if sentence and len(sentence[0].split()) > _MIN_TERMS + 1:
            yield Question("comment", sentence[0], [each.id], each.headings, comment[0], [each.id])


def _references(passages: Iterable[TargetPassage], headings: Mapping[str, Question]) -> Iterator[Question]:
    """Yield each sentence that names the heading of another section as a question. That section answers it."""
    starts = Counter(len(heading.split()) for heading in headings)
    lengths = [count for count in starts if 2 <= count <= _MAX_REFERENCE_WORDS]
    for each in passages:
        if each.is_code:
            continue
        for sentence in _SENTENCE.findall(each.text):
            words = _WORD.findall(sentence.rstrip(".!?"))
            if len(words) < _MIN_SENTENCE_WORDS:
                continue
            for count in lengths:
                phrases = (" ".join(words[start : start + count]) for start in range(len(words) - count + 1))
                target = next((headings[phrase] for phrase in phrases if phrase in headings), None)
                if target and each.id not in target.answers and len(words) >= count + _MIN_SENTENCE_WORDS // 2:
                    yield Question("reference", sentence.strip(), target.answers, target.text, sentence, [each.id])
                    break


def _links(passages: Iterable[TargetPassage], links: Links) -> Iterator[Question]:
    """Yield the text of each link as a question. The linked page or section answers it.

    Skips a text that links to several targets or is on most pages, and a text that is in the address, the title or a
    heading of its target.
    """
    uses: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for page, target, text in links:
        uses[text].add((target, page))
    documents: dict[str, list[TargetPassage]] = {url.partition("#")[0]: [] for link in links for url in link[:2]}
    for each in passages:
        if (url := each.id.partition("#")[0]) in documents:
            documents[url].append(each)
    for text, ends in sorted(uses.items()):
        target, *rivals = {target for target, _ in ends}
        document = documents[target.partition("#")[0]]
        section = [each for each in document if each.id == target or each.id.startswith(f"{target}~")]
        answers = section if section and "#" in target else document
        is_named = any(text.casefold() in f"{target} {each.title} {each.headings}".casefold() for each in answers)
        is_common = rivals or len(ends) > len(documents) / 2
        if answers and not (is_named or is_common) and len(terms_in(text, None)) > _MIN_TERMS:
            repeats = [each.id for _, page in ends for each in documents[page] if text in each.text]
            yield Question("link", text, [each.id for each in answers], answers[0].title, text, repeats)


def _without_title(question: Question) -> Question:
    """Remove words of the document's title from a question, unless too few words would remain."""
    title = set(terms_in(question.title))
    words = [word for word in question.text.split() if not title.intersection(terms_in(word))]
    text = " ".join(words)
    return question._replace(text=text) if len(terms_in(text)) >= _MIN_TERMS else question


def _rows(passages: Iterable[TargetPassage], questions: Iterable[Question]) -> Iterator[dict[str, str]]:
    removed: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        for id in question.removed_from:
            removed[id].append(question.removed)
    for each in passages:
        path, text = f"{each.title}{SEPARATOR}{each.headings}".removesuffix(SEPARATOR), each.text
        for text_to_remove in removed[each.id]:
            path = path.removesuffix(text_to_remove).removesuffix(SEPARATOR)
            text = text.replace(text_to_remove, "", 1) if len(text_to_remove) < len(text) else text
        yield {"_id": each.id, "title": path, "text": text}

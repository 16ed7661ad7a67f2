"""Configure the endpoint that writes answers, and build its prompt with passages and conversation marked as data."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexer.generation.lexical.analysis import STEMMERS, is_spaceless, is_stop_word, words
from indexer.network.urls import normalise
from rag.errors import NotConfigured, SettingsError
from rag.messages import Exchange
from rag.query.results import Hit, text_of
from rag.settings import Settings

_COMPLETIONS_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint for chat completions, and the model to request."""

    url: str
    model: str
    key: str = field(repr=False)
    timeout: float = 60.0
    http_proxy: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "Endpoint":
        """Return the configured endpoint. Raises NotConfigured if there is none, or SettingsError if it is invalid."""
        url = settings.answer_url.strip().rstrip("/")
        if not url:
            raise NotConfigured("written answers are not configured: set answer_url and answer_model")
        if normalise("", url) is None:
            raise SettingsError("answer_url must be an http or https address, such as http://127.0.0.1:8080/v1")
        if not settings.answer_model:
            raise SettingsError("answer_model must name a model of answer_url")
        if not settings.answer_key.isascii() or not settings.answer_key.isprintable():
            raise SettingsError("answer_key must be printable ASCII")
        url = url.removesuffix(_COMPLETIONS_PATH) + _COMPLETIONS_PATH
        return cls(url, settings.answer_model, settings.answer_key, http_proxy=settings.http_proxy)


_MIN_CONTENT_WORDS = 4  # a question with fewer words that are not stop words is a follow-up
_MIN_SPACELESS_CHARS = 10  # the same limit for scripts without spaces
_MAX_EARLIER_QUESTIONS = 8


def search_text(question: str, history: Sequence[Exchange], max_chars: int) -> str:
    """Return the search query for a question.

    A short follow-up question, such as "and on Windows?", is appended to the last question that stands alone.
    """

    def stands_alone(question: str) -> bool:
        if is_spaceless(question):
            return len(question) >= _MIN_SPACELESS_CHARS
        content = [word.lower() for word in words(question).findall(question)]
        return all(
            sum(not is_stop_word(word, language) for word in content) >= _MIN_CONTENT_WORDS for language in STEMMERS
        )

    if stands_alone(question):
        return question
    questions = [each.question for each in history[-_MAX_EARLIER_QUESTIONS:]]
    topic = next(filter(stands_alone, reversed(questions)), questions[0] if questions else "")
    room = max_chars - len(question) - 1
    return f"{topic[:room]} {question}".strip() if room > 0 else question


MAX_PASSAGES_CHARS = 24_000
MAX_CONVERSATION_CHARS = 6_000
_MAX_ANSWER_CHARS = 1_500
SYSTEM = Path(__file__).with_name("system.txt").read_text("utf-8").rstrip()

# Delimiters that passages must not imitate: tags of the prompt and special tokens of chat templates.
_BRACKETS = "<\uff1c\ufe64"
_DELIMITER_NAMES = ("passage", "question", "conversation", "system", "startofturn", "endofturn")
_DELIMITER_NAME = re.compile(f"(?={'|'.join(_DELIMITER_NAMES)})")  # a lookahead, because names may overlap
_INVISIBLE = r"\s\x00-\x1f\x7f-\x9f\xad\u0300-\u036f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_BRACKET_BEFORE_PIPE = re.compile(f"[{_BRACKETS}](?=[{_INVISIBLE}]*[|\uff5c\uffe8\u2223\u2502\u2503\u01c0])")
_TOOL = "tools?(?:_(?:call|content|response|result)s?)?"
_BRACKET_OF_TOKEN = re.compile(
    rf"<(?=\s{{0,9}}(?:<\s{{0,9}})?/?\s{{0,9}}(?:s|bos|eos|unk|pad|sys|inst|mask|sep|cls|eot|eom|think|{_TOOL})\s{{0,9}}>)"
    rf"|\[(?=\s{{0,9}}/?\s{{0,9}}(?:inst|system_prompt|available_tools|{_TOOL}|think|cls|sep|mask|gmask)\s{{0,9}}\])",
    re.IGNORECASE,
)
_PADDING = re.compile(r"[\W_]+")
_CITATION = re.compile(r"[ \t]{0,9}\[\d+\]")


def neutralise(text: str) -> str:
    """Replace the opening bracket of everything that looks like a delimiter, in any case and with any padding."""
    text = _BRACKET_BEFORE_PIPE.sub("‹", _BRACKET_OF_TOKEN.sub("‹", text))
    if not any(bracket in text for bracket in _BRACKETS):
        return text
    if not _DELIMITER_NAME.search(_PADDING.sub("", unicodedata.normalize("NFKC", text).casefold())):
        return text
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = _PADDING.sub("", unicodedata.normalize("NFKC", character).casefold())
        letters.append(plain)
        places += [place] * len(plain)
    names = {match.start() for match in _DELIMITER_NAME.finditer("".join(letters))}
    characters = list(text)
    for place, character in enumerate(text):
        if character in _BRACKETS and bisect_left(places, place) in names:
            characters[place] = "‹"
    return "".join(characters)


def messages(question: str, hits: Sequence[Hit], history: Sequence[Exchange] = ()) -> list[dict[str, str]]:
    """Return the messages for a model: numbered passages, the conversation so far, and the question."""
    max_chars = MAX_PASSAGES_CHARS // max(1, len(hits))
    texts = [text if len(text := text_of(hit)) <= max_chars else hit.text[:max_chars] for hit in hits]
    blocks = [
        delimited(number, {"Title": hit.title, "Section": hit.section, "Date": hit.date or ""}, text)
        for number, (hit, text) in enumerate(zip(hits, texts, strict=True), start=1)
    ]
    if history:
        blocks.append(f"<conversation>\n{_conversation(history)}\n</conversation>")
    blocks.append(f"<question>\n{neutralise(question)}\n</question>")
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(blocks)}]


def _conversation(history: Sequence[Exchange]) -> str:
    """Return the last exchanges of a conversation as text. Answers are shortened, and their citations are removed."""
    exchanges: list[str] = []
    room = MAX_CONVERSATION_CHARS
    for each in reversed(history):
        text = _CITATION.sub("", each.answer)
        cut = f"{text[:_MAX_ANSWER_CHARS]}…" if len(text) > _MAX_ANSWER_CHARS else text
        # Truncate before escaping, because escaping a long text with many brackets takes time.
        exchanges.insert(
            0, f"Question: {neutralise(each.question[:MAX_CONVERSATION_CHARS])}\nAnswer: {neutralise(cut)}"
        )
        room -= len(exchanges[0])
        if room < 0:
            exchanges[0] = exchanges[0][:room] if len(exchanges) == 1 else ""
            break
    return "\n".join(filter(None, exchanges))


def delimited(number: int, heading: Mapping[str, str], text: str) -> str:
    """Return a passage between delimiters that neither its heading nor its text can imitate."""
    lines = "".join(f"{name}: {' '.join(neutralise(value).split())}\n" for name, value in heading.items() if value)
    return f'<passage number="{number}">\n{lines}\n{neutralise(text)}\n</passage>'

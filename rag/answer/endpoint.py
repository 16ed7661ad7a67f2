"""The endpoint that writes answers, as the settings name it."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rag.errors import AnswersOff, SettingsError
from rag.settings import Settings

_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that speaks OpenAI's chat completions, and which of its models is to write."""

    url: str
    model: str
    key: str = field(repr=False)
    timeout: float  # seconds for a whole completion

    @classmethod
    def of(cls, settings: Settings) -> "Endpoint":
        """Return the endpoint of the settings. Raises AnswersOff where there is none, SettingsError if it is wrong."""
        url = settings.answer_url.strip().rstrip("/")
        if not url:
            raise AnswersOff("written answers are not configured: set answer_url and answer_model")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError("answer_url must be an http or https address, such as http://127.0.0.1:8080/v1")
        if not settings.answer_model:
            raise SettingsError("answer_model must name a model of answer_url")
        if not settings.answer_key.isascii() or not settings.answer_key.isprintable():
            raise SettingsError("answer_key must be printable ASCII")
        url = url.removesuffix(_PATH) + _PATH
        return cls(url, settings.answer_model, settings.answer_key, settings.answer_timeout)

"""ID tokens of OpenID Connect: JSON web tokens that a provider has signed, checked against its keys.

The keys are fetched when the first token comes, kept, and fetched again by and by; at once for a token with a key that
is not known, but not more often than each half minute, so that nobody has the provider asked by sending nonsense.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from indexer.urls import is_loopback
from rag.errors import ProviderUnreachable, SettingsError, TokenRefused
from rag.settings import Settings
from rag.users.directory import LONGEST, MOST_GROUPS, User

try:
    import jwt
    from jwt.algorithms import has_crypto
except ImportError:  # which `TokenVerifier` says
    has_crypto = False

LONGEST_TOKEN = 8_192  # characters
_ALGORITHMS = {  # by kind of key; whoever has the public key could make tokens of any other
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_WAIT = 5.0  # seconds that a request waits for keys
_TIMEOUT = 10.0  # seconds for either document of the provider
_WAITING = 4  # requests that do so at once; others are told to come again, and hold up nobody
_AGAIN = 30.0  # seconds between two times that keys are asked for because of a token
_FRESH, _GOOD = 3_600.0, 86_400.0  # seconds until keys are fetched again beside, and until they are good no more
_MOST_BYTES = 1_000_000
_DISCOVERY = "/.well-known/openid-configuration"

log = logging.getLogger("pilotlight")


class _Key(NamedTuple):
    public: Any
    algorithms: Sequence[str]  # that a token may be signed by


Keys = Mapping[str | None, _Key]


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose tokens are taken."""

    issuer: str
    audience: str
    jwks: str = ""  # where its keys are; empty: where its discovery document says
    user_claim: str = "sub"
    groups_claim: str = "groups"  # names with dots between lead into objects
    leeway: float = 60.0  # seconds that clocks may differ

    @classmethod
    def of(cls, settings: Settings) -> "Provider":
        """Take it from the settings. Raises SettingsError for what cannot be."""
        if not settings.oidc_audience:
            raise SettingsError("--oidc-issuer needs --oidc-audience: else tokens for other services would be taken")
        for flag, url in (("--oidc-issuer", settings.oidc_issuer), ("--oidc-jwks", settings.oidc_jwks)):
            if url and not _is_safe(url):
                raise SettingsError(f"{flag} must be an https address, or http of this machine, not {url[:200]!r}")
        return cls(
            settings.oidc_issuer,
            settings.oidc_audience,
            settings.oidc_jwks,
            settings.oidc_user_claim,
            settings.oidc_groups_claim,
            settings.oidc_leeway,
        )


def check_installed() -> None:
    """Raise SettingsError unless tokens can be checked here."""
    if not has_crypto:
        raise SettingsError("tokens cannot be checked without PyJWT and cryptography: pip install 'pilotlight[oidc]'")


def is_token(text: str) -> bool:
    """Return whether a text has the form of a signed token; keys do not."""
    return text.count(".") == 2 and text.startswith("ey")


class TokenVerifier:
    """Says who has a token. Safe to share between threads; a token whose key is known waits for nobody."""

    def __init__(self, provider: Provider, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the provider, of which nothing is asked yet. Raises SettingsError where PyJWT is not installed."""
        check_installed()
        self._provider = provider
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Keys = {}
        self._fetched = -_GOOD  # when
        self._tried = -_AGAIN
        self._fetch: threading.Thread | None = None
        self._places = threading.BoundedSemaphore(_WAITING)

    def prepare(self) -> None:
        """Begin to fetch the keys, so that the first token finds them."""
        self._refresh(wait=False)

    def verify(self, token: str) -> User:
        """Return who a token is of.

        Raises TokenRefused, and ProviderUnreachable where its keys could not be had; neither tells what is in it.
        """
        kid = self._kid_of(token)
        key = self._known().get(kid)
        if key is None:
            self._refresh(wait=True)
            key = self._known().get(kid)
        elif self._clock() - self._fetched > _FRESH:
            self._refresh(wait=False)
        if key is None:
            if not self._known() or self._is_fetching():
                raise ProviderUnreachable("the keys of the identity provider cannot be had: try again later")
            raise TokenRefused("it is signed with a key that the provider does not have")
        return self._checked(token, key)

    def knows(self, token: str) -> bool:
        """Return whether a token is good by the keys that are there, or may be by some about to come: asks nobody."""
        with suppress(TokenRefused):
            key = self._known().get(self._kid_of(token))
            if key is None:
                return self._is_fetching() or self._clock() - self._tried >= _AGAIN
            self._checked(token, key)
            return True
        return False

    def _is_fetching(self) -> bool:
        return self._fetch is not None and self._fetch.is_alive()

    def _known(self) -> Keys:
        return self._keys if self._clock() - self._fetched <= _GOOD else {}

    def _kid_of(self, token: str) -> str | None:
        if len(token) > LONGEST_TOKEN:
            raise TokenRefused(f"it is longer than {LONGEST_TOKEN:,} characters")
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            raise TokenRefused("it is not a token") from None
        if kid is None and len(known := self._known()) == 1:
            return next(iter(known))
        return kid if isinstance(kid, str) else None

    def _checked(self, token: str, key: _Key) -> User:
        provider = self._provider
        try:
            claims = jwt.decode(
                token,
                key.public,
                algorithms=key.algorithms,
                audience=provider.audience,
                issuer=provider.issuer,
                leeway=provider.leeway,
                options={"require": ["exp", "iat", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise TokenRefused("it has expired") from None
        except jwt.PyJWTError as error:
            raise TokenRefused(_reason(error)) from None
        audiences = claims["aud"]
        if isinstance(audiences, list) and len(audiences) > 1 and claims.get("azp") != provider.audience:
            raise TokenRefused("it is for several services, and was given to another one")
        # which some providers write as a text, and others not at all
        if provider.user_claim == "email" and claims.get("email_verified", True) not in (True, "true"):
            raise TokenRefused("its email is not verified")
        name, groups = _at(claims, provider.user_claim), _at(claims, provider.groups_claim)
        groups = [groups] if isinstance(groups, str) else groups or []
        if not _is_name(name):
            raise TokenRefused(f"it has no name of a user in the claim {provider.user_claim}")
        if not isinstance(groups, list) or len(groups) > MOST_GROUPS or not all(map(_is_name, groups)):
            raise TokenRefused(f"its claim {provider.groups_claim} is not a list of at most {MOST_GROUPS} names")
        return User(name, tuple(dict.fromkeys(groups)))

    def _refresh(self, *, wait: bool) -> None:
        """Have the keys fetched in a thread, one at a time, and wait for a moment where that is asked."""
        with self._lock:
            if not self._is_fetching():
                if self._clock() - self._tried < _AGAIN:
                    return
                self._tried = self._clock()
                self._fetch = threading.Thread(target=self._fetch_keys, name="pilotlight-oidc", daemon=True)
                self._fetch.start()
            fetch = self._fetch
        if wait and fetch and self._places.acquire(blocking=False):
            try:
                fetch.join(_WAIT)
            finally:
                self._places.release()

    def _fetch_keys(self) -> None:
        import httpx

        try:
            with httpx.Client(timeout=_TIMEOUT) as client:
                address = self._provider.jwks or self._discovered(client)
                keys = dict(_usable(_get(client, address)))
            if not keys:
                raise ValueError("it has no key that a token can be signed with")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the keys of %s cannot be had: %s", self._provider.issuer, error or type(error).__name__)
            return
        self._keys, self._fetched = keys, self._clock()

    def _discovered(self, client: Any) -> str:
        document = _get(client, self._provider.issuer.rstrip("/") + _DISCOVERY)
        if document["issuer"] != self._provider.issuer:
            raise ValueError(f"its discovery document is of {str(document['issuer'])[:200]!r}")
        address = str(document["jwks_uri"])
        if not _is_safe(address):
            raise ValueError(f"its keys are at {address[:200]!r}, which is not https")
        return address


def _get(client: Any, url: str) -> Any:
    """Return the JSON at an address. Raises httpx.HTTPError or ValueError."""
    until = time.monotonic() + _TIMEOUT
    with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        if answer.status_code != 200:  # a redirect too: it could lead anywhere
            raise ValueError(f"{url} answers {answer.status_code}")
        body = b""
        for part in answer.iter_bytes():
            body += part
            if len(body) > _MOST_BYTES or time.monotonic() > until:
                raise ValueError(f"{url} is too large or too slow")
    return json.loads(body)


def _usable(document: Any) -> Iterator[tuple[str | None, _Key]]:
    """Yield the public keys for signatures; of a kind or a curve that nobody here knows, nothing is said."""
    for entry in document["keys"]:
        known = _ALGORITHMS.get(entry.get("kty"), ())
        algorithms = [name for name in known if entry.get("alg", name) == name]
        if algorithms and entry.get("use", "sig") == "sig":
            with suppress(jwt.PyJWTError):
                yield entry.get("kid"), _Key(jwt.PyJWK(entry, algorithms[0]).key, algorithms)


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _at(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:  # as names that are addresses have dots too
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) == len(value) <= LONGEST and value.isprintable()


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text[:1].lower() + text[1:]

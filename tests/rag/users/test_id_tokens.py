import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from rag.errors import ProviderUnreachable, SettingsError, TokenRefused
from rag.settings import load
from rag.users.directory import User
from rag.users.id_tokens import Provider, TokenVerifier, is_token
from tests.rag.conftest import wait_for
from tests.rag.users import provider as fake


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def provider() -> Iterator[fake.Provider]:
    with fake.running() as provider:
        yield provider


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(provider: fake.Provider, clock: Clock) -> Callable[..., TokenVerifier]:
    def made(**options: Any) -> TokenVerifier:
        return TokenVerifier(Provider(provider.issuer, fake.AUDIENCE, **options), clock)

    return made


def test_a_token_says_who_one_is(provider: fake.Provider, make: Callable[..., TokenVerifier]) -> None:
    verifier, token = make(), provider.token()
    assert is_token(token)
    assert not is_token("pl_" + "x" * 43)
    assert verifier.knows(token)  # its key may be about to come
    assert verifier.verify(token) == User("ann", ("red",))
    assert verifier.verify(provider.token(sub="bob", groups="one")) == User("bob", ("one",))
    assert verifier.verify(provider.token(groups=None)) == User("ann")
    assert verifier.knows(token)
    assert len(provider.asked) == 2  # the discovery document and the keys, once


@pytest.mark.parametrize("algorithm", ["PS384", "ES256", "EdDSA"])
def test_algorithms_with_a_public_key(
    provider: fake.Provider, make: Callable[..., TokenVerifier], algorithm: str
) -> None:
    provider.add("two", algorithm)
    assert make().verify(provider.token("two")).name == "ann"


WRONG: dict[str, dict[str, Any]] = {
    "for another service": {"aud": "other"},
    "for nobody": {"aud": None},
    "of another provider": {"iss": "https://evil.example"},
    "of none": {"iss": None},
    "expired": {"iat": int(time.time()) - 7200, "exp": int(time.time()) - 120},
    "for ever": {"exp": None},
    "without a time": {"iat": None},
    "of tomorrow": {"iat": int(time.time()) + 86_400},
    "not yet good": {"nbf": int(time.time()) + 600},
    "given to another service": {"aud": [fake.AUDIENCE, "other"], "azp": "other"},
    "for several": {"aud": [fake.AUDIENCE, "other"]},
    "nameless": {"sub": None},
    "empty name": {"sub": " "},
    "name with a line break": {"sub": "ann\nbob"},
    "groups that are none": {"groups": [1]},
    "groups in an object": {"groups": {"red": True}},
    "too many groups": {"groups": [str(number) for number in range(300)]},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_token(
    provider: fake.Provider, make: Callable[..., TokenVerifier], changes: dict[str, Any]
) -> None:
    verifier = make()
    verifier.verify(provider.token())
    token = provider.token(**changes)
    with pytest.raises(TokenRefused) as caught:
        verifier.verify(token)
    assert "\n" not in str(caught.value)
    assert not verifier.knows(token)


def test_clocks_may_differ_a_little(provider: fake.Provider, make: Callable[..., TokenVerifier]) -> None:
    now = int(time.time())
    verifier = make()
    assert verifier.verify(provider.token(exp=now - 30, iat=now + 30, nbf=now + 30)).name == "ann"
    with pytest.raises(TokenRefused):
        make(leeway=5.0).verify(provider.token(exp=now - 30))


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_forged_tokens(provider: fake.Provider, make: Callable[..., TokenVerifier]) -> None:
    verifier = make()
    verifier.verify(provider.token())
    claims, public = provider.claims(sub="root"), provider.keys["one"].public_key()  # type: ignore[union-attr]
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)  # type: ignore[union-attr]
    head, body, _ = provider.token(sub="root").split(".")
    signed = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(claims)}"
    confused = base64.urlsafe_b64encode(hmac.digest(pem, signed.encode(), hashlib.sha256)).rstrip(b"=").decode()
    forged = [
        f"{part({'alg': 'none', 'kid': 'one'})}.{part(claims)}.",
        f"{part({'alg': 'None', 'kid': 'one'})}.{part(claims)}.x",
        f"{signed}.{confused}",  # the public key as a shared secret
        f"{head}.{body}.",
        f"{head}.{part(claims)}.{provider.token().split('.')[2]}",  # another's signature
        jwt.encode(claims, fake.rsa_key("stranger"), "RS256", headers={"kid": "one"}),
        f"{part({'alg': 'ES256', 'kid': 'one'})}.{part(claims)}.{'A' * 86}",
        f"{part({'alg': 'RS256', 'kid': ['one']})}.{part(claims)}.AAAA",
        "ey.ey.ey",
        "ey" + "x" * 9_000 + ".a.b",
    ]
    for token in forged:
        with pytest.raises((TokenRefused, ProviderUnreachable)):
            verifier.verify(token)


def test_keys_that_make_tokens_of_everybody_are_not_taken(
    provider: fake.Provider, make: Callable[..., TokenVerifier]
) -> None:
    """Nor are those for encryption, and nonsense beside good keys costs nothing."""
    secret = b"s" * 32
    provider.more_keys = [
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(secret).decode()},
        provider.public("one") | {"kid": "enc", "use": "enc"},
        {"kty": "RSA", "kid": "half"},
        {"kty": "XYZ"},
    ]
    verifier = make()
    assert verifier.verify(provider.token()).name == "ann"
    for token in (
        jwt.encode(provider.claims(), secret, "HS256", headers={"kid": "shared"}),
        provider.token(headers={"kid": "enc"}),
    ):
        with pytest.raises(TokenRefused, match="does not have"):
            verifier.verify(token)


def test_a_token_without_a_key_id(provider: fake.Provider, make: Callable[..., TokenVerifier]) -> None:
    verifier = make()
    verifier.verify(provider.token())
    assert verifier.verify(provider.token(headers={})).name == "ann"  # there is only one it can be
    provider.add("two", "ES256")
    other = make()
    other.verify(provider.token())
    with pytest.raises(TokenRefused):
        other.verify(provider.token(headers={}))


def test_keys_change(provider: fake.Provider, make: Callable[..., TokenVerifier], clock: Clock) -> None:
    verifier = make()
    old = provider.token()
    verifier.verify(old)
    asked = len(provider.asked)
    provider.add("two", "ES256")
    with pytest.raises(TokenRefused, match="does not have"):  # so soon nobody is asked again
        verifier.verify(provider.token("two"))
    assert len(provider.asked) == asked
    clock.now = 31
    assert verifier.verify(provider.token("two")).name == "ann"
    assert verifier.verify(old).name == "ann"
    del provider.keys["one"]
    clock.now = 3_700
    assert verifier.verify(old).name == "ann"  # meanwhile they are fetched
    wait_for(lambda: not verifier.knows(old))
    with pytest.raises(TokenRefused):
        verifier.verify(old)


def test_a_provider_that_is_down(provider: fake.Provider, make: Callable[..., TokenVerifier], clock: Clock) -> None:
    provider.status = 503
    verifier, token = make(), provider.token()
    with pytest.raises(ProviderUnreachable):
        verifier.verify(token)
    asked = len(provider.asked)
    with pytest.raises(ProviderUnreachable):
        verifier.verify(token)
    assert len(provider.asked) == asked
    provider.status, clock.now = 200, 31
    assert verifier.verify(token).name == "ann"
    provider.status, clock.now = 500, 31 + 3_700  # keys that are there are good for a day
    assert verifier.verify(token).name == "ann"
    clock.now = 100_000
    with pytest.raises(ProviderUnreachable):
        verifier.verify(token)


def test_a_slow_provider_holds_up_nobody_whose_key_is_known(
    provider: fake.Provider, make: Callable[..., TokenVerifier], clock: Clock
) -> None:
    verifier, known = make(), provider.token()
    verifier.verify(known)
    provider.add("two", "ES256")
    provider.held.clear()
    clock.now = 31
    found: list[Any] = []
    waiting = [threading.Thread(target=lambda: found.append(verifier.verify(provider.token("two")))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    wait_for(lambda: len(provider.asked) == 3)
    assert verifier.verify(known).name == "ann"  # or this would never end
    assert not found
    provider.held.set()
    for thread in waiting:
        thread.join()
    assert len(found) == 3
    assert len(provider.asked) == 4  # they waited for one another's answer


@pytest.mark.parametrize(
    "document", [{"issuer": "https://evil.example"}, {"jwks_uri": "http://evil.example/keys"}, {"jwks_uri": 7}]
)
def test_a_discovery_document_that_cannot_be(
    provider: fake.Provider, make: Callable[..., TokenVerifier], document: dict[str, Any]
) -> None:
    provider.document = document
    with pytest.raises(ProviderUnreachable):
        make().verify(provider.token())


def test_claims_have_the_names_that_are_set(provider: fake.Provider, make: Callable[..., TokenVerifier]) -> None:
    verifier = make(jwks=f"{provider.issuer}/keys", user_claim="email", groups_claim="realm_access.roles")
    token = provider.token(email="ann@x.org", realm_access={"roles": ["a", "b", "a"]})
    assert verifier.verify(token) == User("ann@x.org", ("a", "b"))
    assert verifier.verify(provider.token(email="ann@x.org", realm_access=7)) == User("ann@x.org")
    for unverified in (False, "false", "", 0, {}):
        with pytest.raises(TokenRefused, match="not verified"):
            verifier.verify(provider.token(email="root@x.org", email_verified=unverified))
    for verified in (True, "true"):
        assert verifier.verify(provider.token(email="ann@x.org", email_verified=verified)).name == "ann@x.org"
    assert provider.asked == ["/realm/keys"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"oidc_issuer": "https://id.example"}, "--oidc-audience"),
        ({"oidc_issuer": "http://id.example", "oidc_audience": "a"}, "--oidc-issuer must be an https address"),
        (
            {"oidc_issuer": "https://id.example", "oidc_audience": "a", "oidc_jwks": "file:///etc/keys"},
            "--oidc-jwks must be an https address",
        ),
    ],
)
def test_settings_that_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Provider.of(load(given, {}))


def test_what_is_missing_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.users.id_tokens.has_crypto", False)
    with pytest.raises(SettingsError, match=r"pip install 'pilotlight\[oidc\]'"):
        TokenVerifier(Provider("https://id.example", "a"))

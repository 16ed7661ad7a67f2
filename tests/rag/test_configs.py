import pytest

from embedder.errors import PilotlightError
from indexer.scope import Scope
from rag.commands.cli import parser
from rag.configs import build_config
from rag.settings import load


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], False),
        (["--allow-private"], True),
        (["--allow-private=no"], False),
        (["--allow-private", "On"], True),
        (["--allow-private", "10.0.0.0/8, fd00::/8"], ("10.0.0.0/8", "fd00::/8")),
    ],
)
def test_private_networks_are_all_none_or_those_named(given: list[str], meant: object) -> None:
    settings = load({k: v for k, v in vars(parser().parse_args(["index", *given])).items() if k == "allow_private"}, {})
    assert build_config(settings).crawl.allow_private == meant


@pytest.mark.parametrize("value", ["http://127.0.0.1/", "perhaps", "10.0.0.1/8"])
def test_what_is_no_network_is_refused(value: str) -> None:
    with pytest.raises(PilotlightError, match="allow_private is yes, no or networks such as"):
        build_config(load({"allow_private": value}, {}))


def test_patterns_become_a_scope() -> None:
    settings = load({"include": "/docs/, /blog/*.html$", "exclude": "*/old/"}, {})
    assert build_config(settings).crawl.scope == Scope(("/docs/", "/blog/*.html$"), ("*/old/",))

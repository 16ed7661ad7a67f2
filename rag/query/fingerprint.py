"""The check that a search uses the embedder of its index."""

import shlex
from collections.abc import Mapping

from embedder.config import EmbedderConfig
from indexer.generation.manifest import Manifest, differing_fields
from rag.errors import FingerprintMismatch


def check_fingerprint(manifest: Manifest, fingerprint: Mapping[str, object]) -> None:
    """Raise FingerprintMismatch, which names the differing fields, if another embedder built the index."""
    built = manifest.fingerprint
    fields = differing_fields(built, fingerprint)
    if not fields:
        return
    details = "; ".join(f"{name}: index {built.get(name)!r:.16}, here {fingerprint.get(name)!r:.16}" for name in fields)
    flags = ""
    if isinstance(model := manifest.settings.get("model"), dict):
        options = model | {"precision": built.get("precision", "")}
        names = [name for name in EmbedderConfig.__dataclass_fields__ if options.get(name)]
        words = [word for name in names for word in (f"--{name.replace('_', '-')}", str(options[name]))]
        flags = f" ({shlex.join(words)})"
    raise FingerprintMismatch(
        f"index generation {manifest.id} was built by another embedder ({details}): use the settings it was built "
        f"with{flags}, or build an index with these settings in another folder (--index) and serve that"
    )

"""Every error of Pilotlight, by package.

PilotlightError                  base of all; its text is one line: problem, place, remedy
├── EmbedderError                (this file)
│   ├── ModelError               a model folder or hub name that cannot be used
│   │   └── RemoteCodeRefused    the model asks to run code that came with it
│   ├── PrecisionError           a precision that this processor or engine does not have
│   ├── CompilerMissing          a package must be built, and there is no C++ compiler
│   ├── TorchMissing             an engine needs PyTorch, and it is not installed
│   ├── PackageError             a compiled package is corrupt, stale or for another machine
│   └── CacheError               the package cache is not private, or its disk forbids code
├── IndexerError                 indexer/errors.py
└── RagError                     rag/errors.py
"""


class PilotlightError(Exception):
    """Base of all errors that a user can cause or must act on."""


class EmbedderError(PilotlightError):
    """Base of the embedder's errors."""


class ModelError(EmbedderError):
    """A model folder or hub name cannot be used. The message names the file and the fault."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:500])


class RemoteCodeRefused(ModelError):
    """The model needs its own Python code, and Pilotlight never runs code of a model."""


class PrecisionError(EmbedderError):
    """The precision is not available on this processor or with this engine."""


class CompilerMissing(EmbedderError):
    """A package must be built, but no working C++ compiler was found."""


class TorchMissing(EmbedderError):
    """The engine needs PyTorch, which is not installed."""


class PackageError(EmbedderError):
    """A compiled package is corrupt, stale, or was built for another machine."""


class CacheError(EmbedderError):
    """Another user owns or can write to the package cache, or its disk forbids storing or running code."""

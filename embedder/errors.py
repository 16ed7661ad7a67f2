"""Define the errors of the embedder, and the base class of all errors of Pilotlight.

PilotlightError                  base of all; the message is one line: problem, location, remedy
├── EmbedderError                (this file)
│   ├── ModelError               a model's folder or Hugging Face name that cannot be used
│   │   └── RemoteCodeRefused    the model asks to run code that came with it
│   ├── PrecisionError           a precision that this processor or engine does not have
│   ├── CompilerMissing          a model must be compiled, but no C++ compiler is installed
│   ├── TorchMissing             an engine needs PyTorch, which is not installed
│   ├── PackageError             compiled files of a model are damaged, outdated or for another machine
│   └── CacheError               the cache of compiled files is not private, or its disk forbids running code
├── IndexerError                 indexer/errors.py
└── RagError                     rag/errors.py
"""


class PilotlightError(Exception):
    """Base class of all errors that a user can cause or has to fix."""


class EmbedderError(PilotlightError):
    """Base class of the embedder's errors."""


class ModelError(EmbedderError):
    """A model's folder or Hugging Face name cannot be used. The message names the file and the fault."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:500])


class RemoteCodeRefused(ModelError):
    """The model requires Python code from its own files, which Pilotlight never runs."""


class PrecisionError(EmbedderError):
    """The precision is not available on this processor or with this engine."""


class CompilerMissing(EmbedderError):
    """A model must be compiled, but no C++ compiler is installed."""


class TorchMissing(EmbedderError):
    """The engine needs PyTorch, which is not installed."""


class PackageError(EmbedderError):
    """The compiled files of a model are damaged or outdated, or were built for another machine."""


class CacheError(EmbedderError):
    """The cache of compiled files is not private to this user, or its disk does not allow storing or running code."""

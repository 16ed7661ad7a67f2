"""Indexes what was pushed as `rag.commands.jobs` does, with the dummy embedder."""

import os

from rag.serving.pushed_builder import PushedBuilder
from rag.settings import load
from tests.dummy import DummyEmbedder

if __name__ == "__main__":
    server = os.getppid()
    PushedBuilder(load(), lambda settings: DummyEmbedder()).keep(lambda: os.getppid() == server, idle=5.0)

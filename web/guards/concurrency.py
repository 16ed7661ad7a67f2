"""A limit on the long answers that a worker writes at once: each keeps one of its threads for as long as it takes."""

import threading
from collections.abc import Callable

from flask import Blueprint, current_app
from flask.blueprints import BlueprintSetupState


class ConcurrencyLimit:
    """A limit on how many requests of a blueprint are answered at a time, in each application."""

    def __init__(self, blueprint: Blueprint, most: int, name: str = "") -> None:
        """Count for the routes of a blueprint, or some of them under a name of their own, once it is registered."""
        self._name = f"{name or blueprint.name}_slots"
        blueprint.record(lambda state: self._make(state, most))

    def take(self, full: Exception) -> Callable[[], None]:
        """Take a place; return the function that gives it back. Raises `full` if none is free."""
        slots: threading.BoundedSemaphore = current_app.extensions[self._name]
        if not slots.acquire(blocking=False):
            raise full
        return slots.release

    def _make(self, state: BlueprintSetupState, most: int) -> None:
        state.app.extensions[self._name] = threading.BoundedSemaphore(most)

"""Results of a method, remembered for as long as its object lives, and no longer."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar
from weakref import WeakMethod

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def remembered(method: Callable[Parameters, Result], most: int) -> Callable[Parameters, Result]:
    """Return a bound method with an LRU cache, for another method of the same object to call.

    `lru_cache` of the method itself would keep the object in turn. Only the garbage collector takes such a pair apart,
    in a large process rarely: until then the files of generations long replaced would stay open, and on the disk.
    """
    weak: WeakMethod[Any] = WeakMethod(method)

    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        bound = weak()
        assert bound is not None  # noqa: S101 - it is in the middle of a method
        result: Result = bound(*args, **kwargs)
        return result

    cached: Callable[Parameters, Result] = lru_cache(most)(call)  # type: ignore[assignment]  # of arguments that hash
    return cached

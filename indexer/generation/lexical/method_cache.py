"""Results that are remembered: of a method for as long as its object lives, and of a function of words."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakMethod

LONGEST_REMEMBERED = 64  # characters of a word
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


def remembers_words(most: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Give a function, whose first argument is a word, an LRU cache for words that somebody may type.

    A query may be one word of 10,000 characters, which in scripts without spaces has twice as many terms: a few hundred
    of these filled a gigabyte.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        cached: Any = lru_cache(most)(function)

        @wraps(function)
        def call(word: str, *others: Any) -> Any:
            return (cached if len(word) <= LONGEST_REMEMBERED else function)(word, *others)  # type: ignore[call-arg, arg-type]

        return call  # type: ignore[return-value]  # it takes no argument by name

    return decorate

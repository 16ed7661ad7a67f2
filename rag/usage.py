"""A parser whose errors are one line, and name what was probably meant."""

import argparse
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from rag.errors import UsageError

_CLOSE = 0.6  # of `difflib`, 1 being equal


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises UsageError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the parser's message, and where to read more."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = f"{self._verb} needs {missing}"
        elif message.endswith(": expected one argument"):
            message = f"{message.removeprefix('argument ').removesuffix(': expected one argument')} needs a value"
        raise UsageError(f"{message}; see {self.prog} --help")

    def read(self, line: Iterable[str] | None) -> dict[str, Any]:
        """Parse a command line. Raises UsageError; --help and --version end the process, as everywhere."""
        found, unknown = self.parse_known_args(None if line is None else list(line))
        args = vars(found)
        if unknown:
            verb = args["verb"]
            raise UsageError(self._unknown(verb, unknown[0]) if verb else f"{unknown[0]} comes after a command")
        return args

    @property
    def _verb(self) -> str:
        return self.prog.rpartition(" ")[2]

    @property
    def _verbs(self) -> dict[str, "Parser"]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            raise UsageError(
                f"there is no command {value!r}{did_you_mean(value, known)}; see pilotlight --help for all of them"
            )
        raise UsageError(f"{action.metavar} must be one of {', '.join(known)}, not {value!r}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            kind = "a whole number" if action.type is int else "a number"
            raise UsageError(f"{action.option_strings[0]} must be {kind}, not {arg_string!r}") from None

    def _unknown(self, verb: str, word: str) -> str:
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            return f"{verb} does not expect {word!r}; see pilotlight {verb} --help"
        own = self._verbs[verb].flags
        others = [name for name, parser in self._verbs.items() if flag in parser.flags]
        text = f"{verb} has no flag {flag}"
        if others:
            return f"{text}; it belongs to {', '.join(others[:4])}{' and others' * (len(others) > 4)}"
        return f"{text}{did_you_mean(flag, own)}; see pilotlight {verb} --help"

    @property
    def flags(self) -> list[str]:
        """The flags that its help shows."""
        shown = (action for action in self._actions if action.help != argparse.SUPPRESS)
        return [flag for action in shown for flag in action.option_strings]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name what is nearest to a word, to be added to an error; empty where nothing is near."""
    near = nearest(word, known)
    return f", did you mean {near}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """What is nearest to a word; None where nothing is near."""
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=_CLOSE)), None)

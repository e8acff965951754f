"""Errors that a command prints on one line."""

from __future__ import annotations

from collections.abc import Iterable

from quadfeat._utils.validation import did_you_mean
from quadfeat.apps.reporting.text import printable


class CommandError(ValueError):
    """Bad input to a command; the message is one line that names the way out.

    Names of files and columns may hold anything: characters that cannot be printed are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def one_line_of(error: BaseException) -> str:
    """Return the message of another library's error on one line, shortened if it is long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} ..."


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return names as ``known`` spells them, each once; suggest a near one for an unknown name."""
    spelling = {name.lower(): name for name in known}
    names = []
    for name in given:
        if name.lower() not in spelling:
            raise CommandError(
                f"unknown {what} {name!r}.{did_you_mean(name, spelling)} Choose from "
                f"{', '.join(spelling.values())}."
            )
        names.append(spelling[name.lower()])
    return list(dict.fromkeys(names))

"""Errors that a command prints as one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from quadfeat._utils.validation import did_you_mean
from quadfeat.apps.reporting.text import printable


class CommandError(ValueError):
    """Bad input to a command. The message is one line and names a way out.

    Names of files and columns may contain anything, so unprintable characters are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def one_line_of(error: BaseException) -> str:
    """Return an error message of another library on one line, shortened if it is long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} ..."


def check_names(
    given: Iterable[str],
    known: Iterable[str],
    what: str,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return names as ``known`` spells them, each once; suggest a close one for an unknown name.

    ``aliases`` has other accepted names and their spelling in ``known``.
    """
    known = list(known)
    spelling = {name.lower(): name for name in known}
    spelling = {**{alias.lower(): name for alias, name in aliases.items()}, **spelling}
    names = []
    for name in given:
        if name.lower() not in spelling:
            raise CommandError(
                f"unknown {what} {name!r}.{did_you_mean(name, spelling)} Choose from "
                f"{', '.join(known)}."
            )
        names.append(spelling[name.lower()])
    return list(dict.fromkeys(names))

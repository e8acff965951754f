"""What a study says when it cannot go on."""

from __future__ import annotations

from collections.abc import Iterable

from quadfeat._validation import did_you_mean
from quadfeat.reporting.errors import CommandError


class StudyError(CommandError):
    """Bad input to a study; the message is one line that names the way out."""


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return names in the spelling of ``known``, each once, or suggest what is near."""
    spelling = {name.lower(): name for name in known}
    names = []
    for name in given:
        if name.lower() not in spelling:
            raise StudyError(
                f"unknown {what} {name!r}.{did_you_mean(name, spelling)} Choose from "
                f"{', '.join(spelling.values())}."
            )
        names.append(spelling[name.lower()])
    return list(dict.fromkeys(names))

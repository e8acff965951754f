"""What a command says when it cannot go on."""

from __future__ import annotations

from collections.abc import Iterable

from quadfeat._validation import did_you_mean


class CommandError(ValueError):
    """Bad input to a command; the message is one line that names the way out."""


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return names in the spelling of ``known``, each once, or suggest what is near."""
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

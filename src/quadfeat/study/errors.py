"""What a study says when it cannot go on."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class StudyError(ValueError):
    """Bad input to a study; the message is one line that names the way out."""


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return names in the spelling of ``known``, each once, or suggest what is near."""
    spelling = {name.lower(): name for name in known}
    names = []
    for name in given:
        found = spelling.get(name.lower())
        if found is None:
            near = get_close_matches(name.lower(), spelling, n=1, cutoff=0.5)
            hint = f"did you mean '{spelling[near[0]]}'?" if near else "there is none like it;"
            raise StudyError(
                f"unknown {what} '{name}': {hint} choose from {', '.join(spelling.values())}."
            )
        names.append(found)
    return list(dict.fromkeys(names))

"""What a command says when it cannot go on."""

from __future__ import annotations


class CommandError(ValueError):
    """Bad input to a command; the message is one line that names the way out."""

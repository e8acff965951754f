"""What a study says when it cannot go on."""

from __future__ import annotations

from quadfeat.apps.reporting.errors import CommandError


class StudyError(CommandError):
    """Bad input to a study; the message is one line that names the way out."""

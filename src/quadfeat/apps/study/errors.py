"""Errors that a study prints on one line."""

from __future__ import annotations

from quadfeat.apps.reporting.errors import CommandError


class StudyError(CommandError):
    """Bad input to a study; the message is one line that names the way out."""

"""Errors that a study prints as one line."""

from __future__ import annotations

from quadfeat.apps.reporting.errors import CommandError


class StudyError(CommandError):
    """Bad input to a study. The message is one line and names a way out."""

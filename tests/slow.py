"""Mark repetitions of a test as slow, so that ``make test`` leaves them out."""

import pytest


def slow(*values):
    """Return a case of a parametrized test that only ``make test-full`` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def repeats(cases, first=1):
    """Mark all cases of a parametrized test as slow, except for the first ones.

    A tuple is a case of several arguments.
    """
    cases = list(cases)
    return cases[:first] + [
        slow(*(case if isinstance(case, tuple) else (case,))) for case in cases[first:]
    ]

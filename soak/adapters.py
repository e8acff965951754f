"""Collect the private names of quadfeat that scenarios depend on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from quadfeat.data import checkpoints
from quadfeat.solvers import accumulator


def n_rows_of(model: Any) -> int:
    """Return the number of rows that a model was fitted to."""
    return int(model._solution.summary.moments.n_rows)


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Replace existing attributes within a context."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def eager_checkpoints() -> AbstractContextManager[None]:
    """Write a checkpoint after every change, without a minimum time between them."""
    return replaced(checkpoints, SECONDS=0.0, TIMES_AS_LONG=0.0)


def small_blocks(n_rows: int) -> AbstractContextManager[None]:
    """Cut tables into blocks of ``n_rows`` rows."""
    return replaced(accumulator, ROWS_PER_BLOCK=(n_rows, n_rows))


def short_studies() -> AbstractContextManager[None]:
    """Make ``quadfeat study --quick`` draw few samples for each number."""
    from quadfeat.apps.study import cli
    from quadfeat.apps.study.experiments import QUICK

    return replaced(cli, QUICK=replace(QUICK, seconds=0.0, headline_seconds=0.0))


class Stopped(BaseException):
    """Simulate a signal that ends a process."""


@contextmanager
def stopping_after(n_files: int, path: Path) -> Iterator[None]:
    """Raise :class:`Stopped` after a file has been written ``n_files`` times."""
    rename = os.replace
    written = 0

    def counting(source: Any, target: Any, **options: Any) -> None:
        nonlocal written
        rename(source, target, **options)
        if Path(target) == Path(os.path.realpath(path)):
            written += 1
            if written == n_files:
                raise Stopped

    with replaced(os, replace=counting):
        yield

"""Rows of Parquet files.

The pattern for other sources: an object whose ``__iter__`` yields ``(X, y)`` or
``(X, y, sample_weight)``, beginning anew each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from quadfeat._utils import validation as check

__all__ = ["ParquetBlocks"]


class ParquetBlocks:
    """The rows of a Parquet file or folder in blocks, for ``fit`` of a model.

    Parameters
    ----------
    path : str or path
        A file, or a folder of them.
    target : str or list of str
        The column, or columns, that the model is to predict.
    columns : list of str, default=None
        The columns of ``X``; by default all but the target and the weights.
    sample_weight : str, default=None
        The column of weights, if there is one.
    rows_per_block : int, default=65536
        How many rows are read at once.
    dtype : dtype, default="float32"
        Of ``X``.

    Examples
    --------
    >>> from quadfeat import QuadratureRidge, ParquetBlocks
    >>> model = QuadratureRidge()
    >>> model.fit(ParquetBlocks("flights.parquet", target="delay"))  # doctest: +SKIP
    """

    def __init__(
        self,
        path: Any,
        target: str | list[str],
        *,
        columns: list[str] | None = None,
        sample_weight: str | None = None,
        rows_per_block: int = 2**16,
        dtype: Any = "float32",
    ) -> None:
        self.path = os.fspath(path)
        self.target = target
        self.columns = columns
        self.sample_weight = sample_weight
        self.rows_per_block = check.check_count(rows_per_block, "rows_per_block")
        self.dtype = dtype

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            import pandas  # noqa: F401  # what Arrow makes tables of
            import pyarrow.dataset as dataset
        except ImportError as error:
            raise ImportError(
                f"ParquetBlocks needs {error.name}: pip install 'quadfeat[parquet]'."
            ) from error

        table = dataset.dataset(self.path, format="parquet")
        targets = [self.target] if isinstance(self.target, str) else list(self.target)
        extra = [] if self.sample_weight is None else [self.sample_weight]
        columns = self.columns
        if columns is None:
            # The index of a data frame is no column of it, though pandas writes it as one.
            index = (table.schema.pandas_metadata or {}).get("index_columns", [])
            others = {*targets, *extra, *(name for name in index if isinstance(name, str))}
            columns = [name for name in table.schema.names if name not in others]
        for name in (*targets, *extra, *columns):
            if name not in table.schema.names:
                raise ValueError(
                    f"{self.path!r} has no column {name!r}."
                    f"{check.did_you_mean(name, table.schema.names)} It has "
                    f"{', '.join(map(repr, table.schema.names))}."
                )
        for batch in table.to_batches(
            columns=[*columns, *targets, *extra], batch_size=self.rows_per_block
        ):
            frame = batch.to_pandas()
            X = frame[columns].astype(self.dtype)
            y = frame[self.target].to_numpy()
            yield (X, y) if not extra else (X, y, frame[self.sample_weight].to_numpy())

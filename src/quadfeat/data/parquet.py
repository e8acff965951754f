"""Rows of Parquet files, in blocks.

Other sources of rows can follow the same pattern: an object whose ``__iter__`` yields ``(X, y)`` or
``(X, y, sample_weight)`` and starts from the first row each time. An attribute ``n_rows``, if there
is one, lets ``verbose=True`` show the time left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.targets import not_finite_rows

__all__ = ["ParquetBlocks"]

# Error messages list at most this many names.
MOST_NAMES = 12


class ParquetBlocks:
    """Read Parquet files in blocks of rows.

    Pass it to ``fit`` or ``score`` of a model instead of ``X`` and ``y``. Iterating over it yields
    tuples ``(X, y)`` of a data frame and an array, which ``predict`` accepts one at a time; see the
    examples. With ``target=None``, for files without targets, it yields data frames. The paths and
    the columns are checked at once; rows are read when they are needed.

    Parameters
    ----------
    path : str, path or list of them
        A Parquet file, a folder of Parquet files with the same columns, or a list of files and
        folders. A list lets you hold out files for testing.
    target : str, list of str or None
        The column or columns to predict. Labels of classes may be strings. None means that all
        columns belong to ``X``.
    columns : list of str, default=None
        The columns of ``X``, which have to be numeric. None means all columns but the target, the
        weights and those in ``exclude``.
    exclude : str or list of str, default=None
        Columns to leave out of ``X``, such as an identifier or text. Pass it instead of
        ``columns``.
    sample_weight : str, default=None
        The column of weights, if there is one.
    rows_per_block : int, default=65536
        The largest number of rows to read at once.
    dtype : dtype, default="float32"
        The dtype of ``X``.

    Attributes
    ----------
    n_rows : int
        Number of rows, from the metadata of the files.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If the path holds no Parquet file, a column does not exist in all files or has two roles, or
        a column of ``X`` or of weights is not numeric.
    ImportError
        If pandas or PyArrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> from quadfeat import ParquetBlocks, QuadratureRidge
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.uniform(-3, 3, (5000, 2)), columns=["a", "b"])
    >>> table["y"] = np.sin(table["a"]) * table["b"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/table.parquet")
    ...     blocks = ParquetBlocks(f"{folder}/table.parquet", target="y", rows_per_block=1000)
    ...     print(blocks)
    ...     model = QuadratureRidge("gaussian", random_state=0).fit(blocks)
    ...     predictions = np.concatenate([model.predict(X) for X, y in blocks])
    ParquetBlocks('...table.parquet', target='y', rows_per_block=1000): 5,000 rows, 2 columns in X
    >>> predictions.shape
    (5000,)
    """

    def __init__(
        self,
        path: Any,
        target: str | list[str] | None,
        *,
        columns: list[str] | None = None,
        exclude: str | list[str] | None = None,
        sample_weight: str | None = None,
        rows_per_block: int = 2**16,
        dtype: Any = "float32",
    ) -> None:
        paths = path if isinstance(path, (list, tuple)) else [path]
        if not paths or not all(isinstance(one, (str, os.PathLike)) for one in paths):
            raise TypeError(
                f"path={check.one_line(path)} is not valid: pass the path of a Parquet file, of a "
                "folder of them, or a list of paths."
            )
        if not (target is None or isinstance(target, str) or _is_list_of_names(target)):
            raise TypeError(
                f"target={check.one_line(target)} is not valid: pass the name of a column, a list "
                "of names, or None if the files have no targets."
            )
        if target is None and sample_weight is not None:
            raise ValueError(
                f"sample_weight={sample_weight!r} has no effect with target=None. Remove it."
            )
        if isinstance(columns, str):
            raise TypeError(f"columns={columns!r} is not valid: pass a list, [{columns!r}].")
        if not (exclude is None or isinstance(exclude, str) or _is_list_of_names(exclude, 0)):
            raise TypeError(
                f"exclude={check.one_line(exclude)} is not valid: pass the name of a column, or a "
                "list of names."
            )
        if columns is not None and exclude is not None:
            raise ValueError(
                f"exclude={check.one_line(exclude)} has no effect with columns=. Remove it, and "
                "leave the names out of columns."
            )
        self._paths = [os.fspath(one) for one in paths]
        self.path = self._paths if isinstance(path, (list, tuple)) else self._paths[0]
        self.target = target
        self.columns = columns
        self.exclude = exclude
        self.sample_weight = sample_weight
        self.rows_per_block = check.check_count(rows_per_block, "rows_per_block")
        self.dtype = dtype
        self._targets = [target] if isinstance(target, str) else list(target or [])
        self._excluded = [exclude] if isinstance(exclude, str) else list(exclude or [])
        self._weights = [] if sample_weight is None else [sample_weight]
        dataset = self._dataset()
        self._columns = self._checked_columns(dataset.schema)
        self._check_files(dataset)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches():
            frame = batch.to_pandas()
            X = frame[self._columns].astype(self.dtype)
            if self.target is None:
                yield X
                continue
            y = frame[self.target if isinstance(self.target, str) else self._targets].to_numpy()
            yield (X, y) if not self._weights else (X, y, frame[self.sample_weight].to_numpy())

    def _batches(self) -> Iterator[Any]:
        """Yield record batches of PyArrow, one row group after the other.

        A scan of the whole dataset reads ahead so far that memory grows with the number of rows.
        """
        dataset = self._dataset()
        names = [*self._columns, *self._targets, *self._weights]
        for fragment in dataset.get_fragments():
            for row_group in fragment.split_by_row_group():
                yield from row_group.to_batches(
                    schema=dataset.schema, columns=names, batch_size=self.rows_per_block
                )

    def __repr__(self) -> str:
        options = {
            "target": (self.target, ...),
            "exclude": (self.exclude, None),
            "sample_weight": (self.sample_weight, None),
            "rows_per_block": (self.rows_per_block, 2**16),
            "dtype": (self.dtype, "float32"),
        }
        shown = [
            f"{name}={check.one_line(value)}"
            for name, (value, default) in options.items()
            if value != default
        ]
        try:
            n_rows = f"{self.n_rows:,} rows"
        except OSError:  # the file has been removed
            n_rows = "a file is missing" if len(self._paths) > 1 else "no such file"
        n_columns = f"{len(self._columns):,} column{'s' if len(self._columns) > 1 else ''} in X"
        return f"ParquetBlocks({', '.join([self._shown, *shown])}): {n_rows}, {n_columns}"

    @property
    def _shown(self) -> str:
        """The path or paths, on one line."""
        return check.one_line(self.path)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, from the metadata of the files."""
        n_rows: int = self._dataset().count_rows()
        return n_rows

    def file_not_finite(self, names: list[str]) -> str:
        """Return the first file in which one of these columns has NaN or infinity, with quotes.

        Models call this method after they have found such a value. It returns an empty string if
        there is no such file.
        """
        dataset = self._dataset()
        for fragment in dataset.get_fragments():
            for batch in fragment.to_batches(schema=dataset.schema, columns=names):
                if not np.isfinite(batch.to_pandas().to_numpy(dtype=self.dtype)).all():
                    return repr(fragment.path)
        return ""

    def targets_not_finite(self) -> tuple[int, int, int, str]:
        """Count rows with missing and with infinite targets, among how many; name the first file.

        Models call this method after they have found such a target.
        """
        counts, place, dataset = np.zeros(3, dtype=int), "", self._dataset()
        for fragment in dataset.get_fragments():
            for batch in fragment.to_batches(schema=dataset.schema, columns=self._targets):
                missing, infinite = not_finite_rows(batch.to_pandas())
                counts += missing.sum(), infinite.sum(), batch.num_rows
                if not place and (missing.any() or infinite.any()):
                    place = repr(fragment.path)
        n_missing, n_infinite, n_rows = counts.tolist()
        return n_missing, n_infinite, n_rows, place

    def _dataset(self) -> Any:
        """Open the PyArrow dataset, without reading rows."""
        first = self._opened(self._paths[0])
        if len(self._paths) == 1:
            return first
        from pyarrow import dataset

        # Other files may store a column in another type.
        return dataset.dataset([self._opened(path, first.schema) for path in self._paths])

    def _opened(self, path: str, schema: Any = None) -> Any:
        """Open the dataset of one path, to read it with a schema if one is given."""
        try:
            import pandas  # noqa: F401  # PyArrow needs it to make data frames
            import pyarrow
            import pyarrow.dataset as dataset
        except ImportError as error:
            package = (error.name or "pyarrow").partition(".")[0]
            raise ImportError(
                f"ParquetBlocks needs the package {package}: run pip install {package}, or "
                "pip install 'quadfeat[parquet]' for all that it needs."
            ) from error
        try:
            found = dataset.dataset(path, format="parquet", schema=schema)
        except FileNotFoundError as error:
            wildcard = " Wildcards are not supported." if "*" in path else ""
            raise FileNotFoundError(
                f"path={path!r} does not exist: pass the path of a Parquet file, or of a "
                f"folder of them.{wildcard}"
            ) from error
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f"path={path!r} cannot be read as Parquet: {' '.join(str(error).split())}. "
                "Pass a Parquet file, or a folder of them."
            ) from error
        if not found.files or not found.schema.names:
            raise ValueError(
                f"path={path!r} has no Parquet files: pass a file, or a folder of files."
            )
        return found

    def _checked_columns(self, schema: Any) -> list[str]:
        """Return the columns of X; reject unknown names and columns that are not numeric."""
        self._check_names("target", self._targets, schema)
        self._check_names("sample_weight", self._weights, schema)
        self._check_names("exclude", self._excluded, schema)
        others = {*self._targets, *self._weights}
        both = [name for name in self._excluded if name in others]
        if both:
            raise ValueError(
                f"exclude={check.one_line(self.exclude)} contains {both[0]!r}, which is a target "
                "or a weight and no column of X: leave it out of exclude."
            )
        if self.columns is not None:
            columns = list(self.columns)
            self._check_names("columns", columns, schema)
            both = [name for name in columns if name in others]
            if both:
                raise ValueError(
                    f"columns={check.one_line(columns)} contains {both[0]!r}, which is a target or "
                    "a weight: leave it out."
                )
        else:
            # pandas writes the index of a data frame as a column, which is not part of X.
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            others |= {name for name in index if isinstance(name, str)} | {*self._excluded}
            columns = [name for name in schema.names if name not in others]
        self._check_numeric(columns, schema)
        return columns

    def _check_files(self, dataset: Any) -> None:
        """Raise an error for the first file that lacks a column.

        PyArrow would read the column as missing values.
        """
        for fragment in dataset.get_fragments():
            found = set(fragment.physical_schema.names)
            for name in (*self._columns, *self._targets, *self._weights):
                if name in found:
                    continue
                way_out = "or leave out the file"
                if name in self._columns:
                    way_out = f"leave out the file, or pass {self._without(name)}"
                raise ValueError(
                    f"the file {fragment.path!r} has no column {name!r}, which other files of "
                    f"{self._shown} have. Write the column to this file, {way_out}."
                )

    def _without(self, name: str) -> str:
        """Return the argument that leaves out one more column."""
        if self.columns is None:
            return f"exclude={check.one_line([*self._excluded, name])}"
        return "columns= without it"

    def _check_names(self, argument: str, names: list[str], schema: Any) -> None:
        """Raise an error for the first name that is not a column."""
        for name in names:
            if name not in schema.names:
                raise ValueError(
                    f"{argument}={name!r} is not a column of {self._shown}."
                    f"{check.did_you_mean(name, schema.names)} Its columns are "
                    f"{_listed(schema.names)}."
                )

    def _check_numeric(self, columns: list[str], schema: Any) -> None:
        """Raise an error if a column of X or of weights does not hold numbers."""
        types = {name: schema.field(name).type for name in [*columns, *self._weights]}
        for name in self._weights:
            if not _is_numeric(types[name]):
                raise ValueError(
                    f"sample_weight={name!r} is a column of type {types[name]}: pass a column of "
                    "numbers."
                )
        bad = [name for name in columns if not _is_numeric(types[name])]
        numeric = [name for name in columns if name not in bad]
        if not columns or not numeric:
            raise ValueError(
                f"{self._shown} has no numeric column for X: pass columns that hold numbers."
            )
        if bad:
            way_out = "pass columns= without them"
            if self.columns is None and len(bad) <= MOST_NAMES:
                way_out = f"pass exclude={[*self._excluded, *bad]!r}"
            elif len(numeric) <= MOST_NAMES:
                way_out = f"pass columns={numeric!r}"
            raise ValueError(
                f"X needs numbers, but these columns of {self._shown} hold none: "
                f"{_listed(bad, types)}. To leave them out, {way_out}; or convert them to numbers."
            )


def _is_list_of_names(value: Any, least: int = 1) -> bool:
    is_list = isinstance(value, (list, tuple)) and len(value) >= least
    return is_list and all(isinstance(name, str) for name in value)


def _is_numeric(kind: Any) -> bool:
    """Return whether a PyArrow type is numeric, such as integers, floats and booleans."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_numeric(kind.value_type)
    tests = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
        types.is_null,  # missing values, which the model rejects
    )
    return any(test(kind) for test in tests)


def _listed(names: list[str], types: dict[str, Any] | None = None) -> str:
    """Return the first names as a list, with their types if given."""
    shown = [repr(name) + (f" ({types[name]})" if types else "") for name in names[:MOST_NAMES]]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(shown)}{more}"

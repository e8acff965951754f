"""Sources of rows: arrays, streams, Parquet and Dask; samples, checkpoints and progress."""

from quadfeat.data.blocks import Block
from quadfeat.data.parquet import ParquetBlocks
from quadfeat.data.rows import ArrayRows, PerBlock, Rows, StreamRows, Task, rows_of
from quadfeat.data.watch import Watch, Work

__all__ = [
    "ArrayRows",
    "Block",
    "ParquetBlocks",
    "PerBlock",
    "Rows",
    "StreamRows",
    "Task",
    "Watch",
    "Work",
    "rows_of",
]

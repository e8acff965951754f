"""Where rows come from: arrays, streams, Parquet, Dask; samples, checkpoints and progress."""

from quadfeat.data.blocks import Block, is_dask, is_stream
from quadfeat.data.checkpoints import Checkpoint
from quadfeat.data.parquet import ParquetBlocks
from quadfeat.data.progress import Progress
from quadfeat.data.rows import ArrayRows, PerBlock, Rows, StreamRows, Task, rows_of
from quadfeat.data.sampling import RangedSample, RowSample
from quadfeat.data.watch import Watch, Work

__all__ = [
    "ArrayRows",
    "Block",
    "Checkpoint",
    "ParquetBlocks",
    "PerBlock",
    "Progress",
    "RangedSample",
    "RowSample",
    "Rows",
    "StreamRows",
    "Task",
    "Watch",
    "Work",
    "is_dask",
    "is_stream",
    "rows_of",
]

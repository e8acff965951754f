"""Turn tables with text, dates and missing values into numbers for kernels."""

from quadfeat.tables.encoder import TableEncoder

__all__ = ["TableEncoder"]

"""Errors about memory that name the parameter behind them."""

from __future__ import annotations

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def too_large(
    n_components: int, n_bytes: int, what: str, way_out: str, error: MemoryError
) -> MemoryError:
    """Return an error that names ``n_components``, the bytes that are needed, and a way out.

    Parameters
    ----------
    n_components : int
    n_bytes : int
        The size of the result.
    what : str
        The result, in the plural.
    way_out : str
    error : MemoryError
        The error of NumPy, which names the array that could not be allocated.
    """
    detail = f" ({error})" if str(error) else ""
    return MemoryError(
        f"n_components={n_components:,} is too large for the memory: {what} need "
        f"{size(n_bytes)}{detail}. {way_out}"
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes in suitable units.

    Examples
    --------
    >>> size(800), size(2_400_000), size(8e12)
    ('800 bytes', '2.4 MB', '8 TB')
    """
    for unit in UNITS[:-1]:
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} {UNITS[-1]}"

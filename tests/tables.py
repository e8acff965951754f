"""Tables for the tests of ``quadfeat compare``."""

import numpy as np
import pandas as pd
import pytest


def people(n=240, seed=0):
    """A table with every kind of column, in which the target follows two of them."""
    rng = np.random.default_rng(seed)
    age, city = rng.uniform(20, 80, n).round(1), rng.choice(["Bern", "Basel", "Genf"], n)
    frame = pd.DataFrame(
        {
            "number": np.arange(100, 100 + n),
            "name": [f"person {k}" for k in range(n)],
            "age": age,
            "city": city,
            "member": rng.choice(["True", "False"], n),
            "joined": (
                pd.Timestamp("2015-01-01") + pd.to_timedelta(np.arange(n), unit="D")
            ).strftime("%Y-%m-%d"),
            "country": "CH",
            "empty": np.nan,
            "buys": np.where(np.abs(age - 50) + 8 * (city == "Bern") < 18, "yes", "no"),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame.loc[::7, "city"] = None
    frame.loc[::11, "joined"] = None
    frame.loc[5:8, "buys"] = None
    return frame


def save(frame, path):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path

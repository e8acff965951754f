"""Where rows come from: arrays, streams, Parquet, Dask; samples, checkpoints and progress."""

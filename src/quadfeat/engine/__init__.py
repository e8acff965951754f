"""Compute features fast: the native core, its NumPy reference, and threads."""

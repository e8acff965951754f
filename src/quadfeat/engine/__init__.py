"""Fast arithmetic: the native core, its NumPy reference, and threads."""

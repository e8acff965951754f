"""The parts of ``benchmarks/accuracy.py``: tables, contestants, scores, cache and report."""

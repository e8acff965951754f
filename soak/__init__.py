"""Randomized stress tests of the whole package: threads, kills, damaged files and clusters.

``make soak`` runs every scenario for a given time and prints what it tried and found.
``tests/test_soak.py`` runs a few trials of each. Interrupts are tested elsewhere:
``tests/test_stress.py`` interrupts every line.

Each module has one scenario, a subclass of :class:`soak.runner.Scenario`. ``adapters.py`` is the
only module that uses private names of quadfeat.
"""

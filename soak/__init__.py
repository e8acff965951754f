"""Randomized stress of the package as a whole: threads, kills, damaged files, clusters.

``make soak`` runs every scenario for a given time and prints what it tried and what it found;
``tests/test_soak.py`` runs a few trials of each. Interrupts are not here, since
``tests/test_stress.py`` tries one on every line.

Each module has one scenario, a subclass of :class:`soak.runner.Scenario`. ``adapters.py`` is the
only module that uses private names of quadfeat.
"""

"""Choices for given data: ``rule="auto"`` and ``n_components="auto"``.

``choose(sample, n_components, rng)`` returns the rule with the smallest expected error on a sample
of rows, and all candidates. ``sample`` has the rows, ``closed_forms`` and ``trials`` the errors of
candidates, ``selection`` the choice of a rule, and ``budget`` that of a number of columns.
"""

from quadfeat.auto.candidates import Candidate
from quadfeat.auto.sample import Sample
from quadfeat.auto.selection import Selection, choose

__all__ = ["Candidate", "Sample", "Selection", "choose"]

"""The choice of a rule and a number of columns: ``rule="auto"`` and ``n_components="auto"``.

``drawing`` draws maps, ``selection`` chooses a rule and ``budget`` a number of columns. ``sample``
holds the rows to choose by; ``closed_forms`` and ``trials`` estimate the errors of candidates.
"""

from quadfeat.auto.candidates import Candidate

__all__ = ["Candidate"]

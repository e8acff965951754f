"""Choose a rule and a number of columns: ``rule="auto"`` and ``n_components="auto"``.

``drawing`` draws maps, ``selection`` chooses a rule, and ``budget`` chooses a number of columns.
``sample`` selects rows, on which ``closed_forms`` and ``trials`` estimate the errors of candidates.
"""

from quadfeat.auto.candidates import Candidate

__all__ = ["Candidate"]

"""Ridge solvers (normal equations, conjugate gradients) and their solutions."""

from quadfeat.solvers.base import Coefficients, Penalty, Problem, Solution, Solver
from quadfeat.solvers.cg import ConjugateGradients, IterativeSolution
from quadfeat.solvers.normal import Normal, NormalSolution
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.systems import System
from quadfeat.solvers.targets import Labels, Numbers, Targets
from quadfeat.solvers.validation import Losses, Score, Validation, validated

__all__ = [
    "AlphaPath",
    "Coefficients",
    "ConjugateGradients",
    "IterativeSolution",
    "Labels",
    "Losses",
    "Normal",
    "NormalSolution",
    "Numbers",
    "Penalty",
    "Posterior",
    "Problem",
    "Score",
    "Solution",
    "Solver",
    "System",
    "Targets",
    "Validation",
    "validated",
]

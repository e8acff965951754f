"""How models are solved: normal equations, conjugate gradients; Gram matrices and posteriors."""

from quadfeat.solvers.base import Coefficients, Penalty, Problem, Solution, Solver
from quadfeat.solvers.cg import ConjugateGradients, IterativeSolution
from quadfeat.solvers.normal import Normal, NormalSolution
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.systems import System
from quadfeat.solvers.targets import Labels, Numbers, Targets

__all__ = [
    "AlphaPath",
    "Coefficients",
    "ConjugateGradients",
    "IterativeSolution",
    "Labels",
    "Normal",
    "NormalSolution",
    "Numbers",
    "Penalty",
    "Posterior",
    "Problem",
    "Solution",
    "Solver",
    "System",
    "Targets",
]

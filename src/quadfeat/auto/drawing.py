"""Draw the map of a kernel for the rows of the data, with a given or chosen rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.random import child
from quadfeat.auto import budget
from quadfeat.auto.candidates import Candidate
from quadfeat.auto.sample import N_ROWS, Sample
from quadfeat.auto.selection import Selection, choose, choose_in_closed_form, has_closed_forms
from quadfeat.kernels import Kernel
from quadfeat.kernels.base import EVALUATIONS
from quadfeat.maps import kernel_error
from quadfeat.maps.kernel_error import KernelError, Pairs, PendingError
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.maps.metric import map_of
from quadfeat.maps.quadrature import Origin
from quadfeat.maps.reweighting import reweight
from quadfeat.maps.survey import View
from quadfeat.rules import Rule, as_rule
from quadfeat.rules.presets import NAMED

# Limits for the error estimate at the end of a fit: the entries of features, and the smallest and
# largest number of pairs.
ENTRIES_AT_FIT = 2**22
PAIRS_AT_FIT = (200, 10_000)

# The rows of these pairs are held until the error is asked for. If they have more entries, the
# error is estimated at once.
ENTRIES_TO_HOLD = 2**20


@dataclass(frozen=True)
class Drawn:
    """A drawn map, and the reason for its rule.

    Attributes
    ----------
    map : KernelMap
    candidates : tuple of Candidate
        The candidate rules, from best to worst.
    why : str
        The reason for the rule.
    error : KernelError or None
        The error on the rows that the map was fitted to, if it is known.
    pending : PendingError or None
        Estimates the error if it is not known.
    bound : int or None
        The number of columns that the paper's bound requires, if a tolerance is given.
    """

    map: KernelMap
    candidates: tuple[Candidate, ...]
    why: str
    error: KernelError | None
    pending: PendingError | None = None
    bound: int | None = None


@dataclass(frozen=True)
class Drawing:
    """Draws maps of a kernel for the rows of the data.

    Attributes
    ----------
    kernel : Kernel
        A kernel with a numeric scale.
    rule : Rule or str
        The user's parameter ``rule``.
    reweight : bool
        Whether to fit the weights of nodes to the rows.
    view : View
        The rows, or a sample of them.
    rng : numpy.random.Generator
    n_jobs : int or None
        Number of threads.
    """

    kernel: Kernel
    rule: Rule | str
    reweight: bool
    view: View
    rng: np.random.Generator
    n_jobs: int | None = None

    def with_columns(self, n_components: int) -> Drawn:
        """Draw a map with ``n_components`` columns."""
        if self._chooses_rule():
            sample = self._sample()
            selection = choose(sample, n_components, child(self.rng))
        else:
            selection = Selection.given(clone(as_rule(self.rule)))
        drawn, why = self._draw(selection, n_components)
        # A group of the largest size has this many pairs for each row.
        per_row = (kernel_error.LARGEST_GROUP - 1) / 2
        affordable = min(
            int(ENTRIES_AT_FIT / n_components * per_row),
            EVALUATIONS // self.kernel.evaluations_per_pair,
        )
        n_pairs = int(np.clip(affordable, *PAIRS_AT_FIT))
        pairs = Pairs.of(self.view.table, n_pairs, child(self.rng))
        entries = pairs.groups.size * self.view.table.shape[1]
        if entries > ENTRIES_TO_HOLD:
            error = kernel_error.estimate(drawn, pairs)
            return Drawn(drawn, selection.candidates, why, error)
        pending = PendingError(drawn.with_jobs(None), pairs)
        return Drawn(drawn, selection.candidates, why, None, pending)

    def within(self, tol: float) -> Drawn:
        """Draw a map with few columns and an error below a tolerance."""
        looking = child(self.rng)
        sample = self._sample()
        select: Callable[[int], Selection]
        if self._chooses_rule():
            select = partial(choose, sample, rng=looking)
            # Closed forms are faster than trials, which may then find that fewer columns suffice.
            start = budget.FIRST
            if has_closed_forms(sample):
                start = budget.smallest(partial(choose_in_closed_form, sample), tol)
        else:
            select = partial(budget.given, clone(as_rule(self.rule)), sample, rng=looking)
            start = budget.FIRST
        n_components = budget.smallest(select, tol, start)
        n_pairs = kernel_error.default_pairs(self.kernel)
        while True:
            selection = select(n_components)
            drawn, why = self._draw(selection, n_components)
            pairs = Pairs.of(self.view.table, n_pairs, looking)
            error = kernel_error.estimate(drawn, pairs)
            assert error.high is not None
            if error.high <= tol:
                break
            n_components = budget.more(n_components, error.high, tol)
        bound = budget.paper_bound(sample, tol)
        said = (
            ""
            if bound is None
            else f" The paper's bound requires {bound} columns for an absolute error below "
            f"{tol:g} on all pairs with probability 0.95."
        )
        why = (
            f"{n_components} columns have a relative error of {error}, below tol={tol:g}. "
            f"{why}{said}"
        )
        return Drawn(drawn, selection.candidates, why, error, bound=bound)

    def _chooses_rule(self) -> bool:
        """Return whether the data determines the rule."""
        if isinstance(self.rule, str):
            return check.check_choice(self.rule, "rule", ("auto", *NAMED)) == "auto"
        return False

    def _sample(self) -> Sample:
        return Sample.from_rows(self.view.sample(N_ROWS), self.kernel)

    def _draw(self, selection: Selection, n_components: int) -> tuple[KernelMap, str]:
        """Draw the nodes of the selected rule, and fit their weights if ``reweight`` is set."""
        rule, rng, X = selection.rule, self.rng, self.view.table
        before = rng.bit_generator.state
        projection = self.kernel.projection
        d = X.shape[1] if projection is None else projection.width
        nodes = rule.draw(d, n_components, self.kernel.inner, rng)
        origin, why = Origin(rule, before, rng.bit_generator.state), selection.why
        if self.reweight:
            result = reweight(nodes, self.kernel, X, child(rng))
            nodes, origin = result.nodes, replace(origin, reweighted=result.kept)
            kept = "are used" if result.kept else "are not used"
            why += (
                f" Weights fitted to the data {kept}: the error on held-out pairs is "
                f"{result.error_after:.3g} with them and {result.error_before:.3g} without them."
            )
        return map_of(self.kernel, nodes, origin).with_jobs(self.n_jobs), why

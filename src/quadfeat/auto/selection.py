r"""``rule="auto"``: the rule with the smallest error on a sample of the user's rows.

A candidate's score is the mean squared error of ``Z Z'`` over pairs of rows, the diagonal
included as it occurs and a bias too, relative to the kernel's own mean square. For stationary
kernels spherical-radial rules have closed forms of it (:mod:`quadfeat.auto.variance`); other rules
and kernels are tried out on the sample a few times.

Blocks and what remains behind them (see ``remainder`` of the rules) are independent and unbiased,
so with mean squared errors ``V`` of the blocks and ``U`` of the remainder the best share for
the remainder is :math:`V / (V + U)`, which makes the error :math:`V U / (V + U)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array
from quadfeat.auto.variance import BlockMoments, radial_slices
from quadfeat.data.sampling import RowSample
from quadfeat.engine.core import DENSE_UP_TO, compile_map, farthest
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.kernels.nonlinearities import Fourier, Pointwise
from quadfeat.kernels.spectra import IsotropicSpectrum
from quadfeat.maps.kernel_error import mean_over_pairs
from quadfeat.rotations import Hadamard
from quadfeat.rules import MonteCarlo, QuasiMonteCarlo, Rule, SphericalRadial
from quadfeat.rules.nodes import Layout, columns_per_node

# Rows of the sample; of many columns so many that features have not many more entries than these.
N_ROWS = 256
FEWEST_ROWS = 64
ENTRIES_OF_SAMPLE = 2**16

# Entries of features and of nodes that all trials together may take; how many trials at least and
# at most.
ENTRIES_TO_TRY = 2**23
LEAST_TRIALS = 2
MOST_TRIALS = 32

# Dense nodes of more entries take so long to draw that they are tried once only.
ENTRIES_TO_DRAW = 2**19

# Evaluations of a function that the exact kernel of the sample may take.
EVALUATIONS = 2**21

TILTS = (0.0, 0.25, 0.5, 0.75, 1.0)

# In fewer dimensions closed forms are far off: so little is left of the variance that what they
# leave out of account is most of it.
CLOSED_FORMS_FROM = 3

# Low-discrepancy points in more coordinates are no better than random ones, and slow to draw.
QUASI_UP_TO = 256

# Matching second moments distorts the nodes where they are few more than the columns.
MATCHED_FROM = 1.25

# A rule with dense nodes has to be better by this factor than one whose nodes have structure.
WORTH_IT = 1.05

# A rule whose first trials have an error of more than so many times the best is not tried again.
PROMISING = 1.4

# Distances of scaled rows beyond this are as good as infinite where the kernel is as good as 0.
FARTHEST = 6.0
AS_GOOD_AS_ZERO = 1e-6
N_DISTANCES = 40


@register
class Candidate(NamedTuple):
    """A rule that was considered.

    Attributes
    ----------
    rule : Rule
        What could have been drawn.
    error : float
        Expected error relative to the kernel, in the Frobenius norm.
    uncertainty : float
        Standard error of ``error``, given the rows; 0 for a closed form, which is right to some per
        cent.
    method : str
        ``"closed form"`` or ``"trials"``.
    """

    rule: Rule
    error: float
    uncertainty: float
    method: str

    def check_consistency(self) -> None:
        checks.check_kind(self.rule, Rule, "rule of an item of candidates_")


class Selection(NamedTuple):
    """The chosen rule, all candidates from the best to the worst, and the reason in a sentence."""

    rule: Rule
    candidates: tuple[Candidate, ...]
    why: str

    @classmethod
    def given(cls, rule: Rule, *candidates: Candidate) -> Selection:
        """Return the selection of a rule that the user has chosen."""
        return cls(rule, candidates, f"{check.one_line(rule)} was given.")


@dataclass(frozen=True)
class Sample:
    """Rows of the data and what a score needs to know of them."""

    chosen: RowSample  # not scaled
    kernel: Kernel
    n_samples: float  # how many rows the data has in all

    @classmethod
    def of(cls, X: Any, kernel: Kernel, weights: Any = None) -> Sample:
        """Choose rows of a dense or sparse matrix."""
        return cls.from_rows(RowSample.of(X, N_ROWS, weights), kernel)

    @classmethod
    def from_rows(cls, chosen: RowSample, kernel: Kernel) -> Sample:
        """Take the first of rows that were chosen from the data."""
        most = math.isqrt(2 * EVALUATIONS // kernel.evaluations_per_pair)
        return cls(chosen.first(min(N_ROWS, max(most, 8))), kernel, chosen.n_samples)

    def first(self, n_rows: int) -> Sample:
        """Return a sample of fewer rows."""
        return replace(self, chosen=self.chosen.first(n_rows))

    @property
    def rows(self) -> Float64Array:
        """The rows as they are in the data."""
        return self.chosen.rows

    @property
    def weights(self) -> Float64Array:
        """How often each of the rows counts."""
        return self.chosen.weights

    @property
    def d(self) -> int:
        """Width of the data."""
        return self.rows.shape[1]

    @cached_property
    def scaled(self) -> Float64Array:
        """The rows times the kernel's factor."""
        return np.asarray(self.rows * self.kernel.input_factor(self.d))

    @cached_property
    def longest(self) -> float:
        """The length of the longest scaled row."""
        return float(np.linalg.norm(self.scaled, axis=1).max())

    @cached_property
    def gram(self) -> Float64Array:
        """The exact kernel of the rows."""
        return np.asarray(self.kernel(self.rows))

    @cached_property
    def mean_square(self) -> float:
        """The mean square of the kernel over pairs of rows, in squares of its largest value."""
        return self.mean((self.gram / self.unit) ** 2)

    @cached_property
    def unit(self) -> float:
        """The largest value of the kernel: what errors are divided by before they are squared."""
        return float(np.abs(self.gram).max()) or 1.0

    def mean(self, values: Float64Array) -> float:
        """Return the mean over all pairs of the data, from values for the pairs of ``gram``."""
        return float(mean_over_pairs(values, self.n_samples, self.weights))

    @cached_property
    def distances(self) -> tuple[Float64Array, Float64Array]:
        """Distances of scaled rows, and how often pairs of different rows are near each."""
        found = np.maximum(pdist(self.scaled), 1e-12)
        kernel: Any = self.kernel  # a stationary one
        if kernel.at_distance(np.array([FARTHEST]))[0] < AS_GOOD_AS_ZERO:
            found = np.minimum(found, FARTHEST)
        if len(found) == 0:
            return np.array([1.0]), np.zeros(1)
        grid = np.geomspace(found.min(), max(found.max(), found.min() * 1.001), N_DISTANCES)
        # The weights of linear interpolation between the points of the grid.
        place = np.interp(found, grid, np.arange(N_DISTANCES))
        below = np.minimum(place.astype(int), N_DISTANCES - 2)
        above = place - below
        left, right = np.triu_indices(len(self.rows), 1)  # the order of pdist
        counts = self.weights[left] * self.weights[right]
        weights = np.bincount(below, counts * (1.0 - above), N_DISTANCES)
        weights += np.bincount(below + 1, counts * above, N_DISTANCES)
        return grid, weights / counts.sum() * (1.0 - 1.0 / self.n_samples)


def choose(sample: Sample, n_components: int, rng: np.random.Generator) -> Selection:
    """Return the best rule for a number of columns.

    Parameters
    ----------
    sample : Sample
        Rows of the data, and the kernel.
    n_components : int
        Number of columns of the map.
    rng : numpy.random.Generator
        For trials.
    """
    if sample.d <= QUASI_UP_TO:  # there are many rules to try; of others, all rows can be afforded
        sample = sample.first(max(FEWEST_ROWS, ENTRIES_OF_SAMPLE // n_components))
    candidates = list(_closed_forms(sample, n_components))
    candidates += _trials(sample, n_components, candidates, rng)
    ordered = tuple(sorted(candidates, key=lambda candidate: candidate.error))
    chosen = next((c for c in ordered if is_fast(c.rule, sample.d)), ordered[0])
    if chosen.error > WORTH_IT * ordered[0].error:
        chosen = ordered[0]
    return Selection(chosen.rule, ordered, _why(chosen, ordered, sample, n_components))


def is_fast(rule: Rule, d: int) -> bool:
    """Return whether features of ``d`` columns cost less than the product with a dense matrix.

    Up to ``DENSE_UP_TO`` columns nothing does, and all rules are as fast.
    """
    return d <= DENSE_UP_TO or isinstance(rule, SphericalRadial)


def _why(
    chosen: Candidate, ordered: tuple[Candidate, ...], sample: Sample, n_components: int
) -> str:
    """Return a sentence whose every number is one of the candidates'."""
    text = (
        f"{_in_short(chosen.rule)} is expected to have a relative error of "
        f"{chosen.error:.3g} with {n_components} column{'s' if n_components > 1 else ''}, by "
        f"{chosen.method} on {len(sample.rows)} rows"
    )
    best, *others = ordered
    if chosen is not best:
        return (
            f"{text}; {_in_short(best.rule)} would have {best.error:.3g}, but has to multiply "
            "by a dense matrix."
        )
    if not others:
        return f"{text}; no other rule serves this kernel and number of columns."
    return (
        f"{text}; the next best of {len(ordered)} candidates is {_in_short(others[0].rule)} "
        f"with {others[0].error:.3g}."
    )


def _in_short(rule: Rule) -> str:
    """Return a rule on one line, its numbers with three digits."""
    return re.sub(r"\d+\.\d{3,}(e-?\d+)?", lambda n: f"{float(n[0]):.3g}", check.one_line(rule))


def _closed_forms(sample: Sample, n_components: int) -> Iterator[Candidate]:
    """Yield the spherical-radial rules of a stationary kernel, with their errors."""
    d, spectrum = sample.d, sample.kernel.spectrum
    if d < CLOSED_FORMS_FROM or not isinstance(sample.kernel.nonlinearity, Fourier):
        return
    if not isinstance(spectrum, IsotropicSpectrum):
        return
    for rule in _spherical_radial_rules(spectrum, d, n_components):
        if rule.tilt == "fixed":
            second, fourth = (spectrum.moment(d, order) for order in (1.0, 2.0))
            radii, weights = np.array([math.sqrt(fourth / second)]), np.array([second**2 / fourth])
        else:
            tilt = float(rule.tilt)
            radii = radial_slices(spectrum, d, tilt)
            weights = radii ** (-2 * tilt)
            weights /= weights.mean()
        # Radii made of two numbers are stratified in each of them, which is less than in both.
        stratified = rule.radii == "stratified" and spectrum.n_radial == 1
        yield _closed_form(rule, radii, weights, sample, n_components, stratified=stratified)


def _spherical_radial_rules(
    spectrum: IsotropicSpectrum, d: int, n_components: int
) -> Iterator[SphericalRadial]:
    """Yield the spherical-radial rules that a stationary kernel allows."""
    has_fourth_moments = bool(np.isfinite(spectrum.moment(d, 2.0)))
    for directions in ("simplex", "orthoplex"):
        for tilt in TILTS:
            if _usable(spectrum, d, tilt):
                # How much a stretch to exact second moments varies, fourth moments say.
                origin = "match" if has_fourth_moments else "renormalise"
                yield SphericalRadial(
                    directions=directions, tilt=tilt, radii="stratified", origin=origin
                )
        if has_fourth_moments and n_components > 1:  # there has to be room for the origin
            yield SphericalRadial(directions=directions, tilt="fixed")


def _usable(spectrum: IsotropicSpectrum, d: int, tilt: float) -> bool:
    """Return whether a tilted rule has weights, and weights of finite variance."""
    return bool(np.isfinite(spectrum.moment(d, tilt)) and np.isfinite(spectrum.moment(d, -tilt)))


def _closed_form(
    rule: SphericalRadial,
    radii: Float64Array,
    weights: Float64Array,
    sample: Sample,
    n_components: int,
    *,
    stratified: bool,
) -> Candidate:
    """Return a candidate with the best weight for what remains behind whole blocks."""
    d, kernel = sample.d, sample.kernel
    per_block = rule.nodes_per_block(d)
    cosine = -1.0 / d if rule.directions == "simplex" else 0.0
    distances, frequency = sample.distances
    moments = BlockMoments.of(distances, radii, weights, d, cosine)
    layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)

    def mean_variance(n_nodes: int, has_single: bool) -> float:
        # The phase of a single cosine adds the variance 1/2 to its node's, on the diagonal too.
        phase = 0.5 / n_nodes**2 if has_single else 0.0
        variance = moments.variance(n_nodes, per_block, stratified=stratified)
        return float(frequency @ variance) + phase

    single = layout.last_is_single
    remainder, error = 1.0, mean_variance(layout.n_nodes, single)
    whole, rest = rule.whole_and_rest(layout, per_block)
    if whole and rest:
        split = _best_remainder(
            mean_variance(whole, False), mean_variance(rest, single), whole, rest
        )
        if split[1] < error:
            remainder, error = split
    if rule.tilt == "fixed":
        bias = 1.0 + moments.mean - kernel.at_distance(distances)
        error += float(frequency @ bias**2)
    return Candidate(
        clone(rule).set_params(remainder=remainder),
        _relative(error, sample),
        0.0,
        "closed form",
    )


def _best_remainder(blocks: float, rest: float, n_blocks: int, n_rest: int) -> tuple[float, float]:
    """Return the best weight of a remainder relative to blocks, at most 1, and the error then.

    ``blocks`` and ``rest`` are the mean squared errors of the two by themselves.
    """
    if blocks + rest == 0:
        return 1.0, 0.0
    share = min(blocks / (blocks + rest), n_rest / (n_blocks + n_rest))
    error = (1.0 - share) ** 2 * blocks + share**2 * rest
    return min(1.0, share / (1.0 - share) * n_blocks / n_rest), error


def _trials(
    sample: Sample, n_components: int, known: list[Candidate], rng: np.random.Generator
) -> list[Candidate]:
    """Return the rules that are tried out, with their errors: a few times, the promising often."""
    tried = [Trial.of(rule, sample, n_components) for rule in _rules_to_try(sample, n_components)]
    entries = (len(sample.gram) + 4 * sample.d) * n_components  # to draw nodes takes longer
    if isinstance(sample.kernel.nonlinearity, Pointwise):
        entries *= 16  # a function of the user's is not as fast as a native one
    most = int(np.clip(ENTRIES_TO_TRY // (4 * entries), LEAST_TRIALS, MOST_TRIALS))
    first = max(1, most // 4)
    for trial in tried:
        trial.run(first, rng)
    best = min(candidate.error for candidate in (*known, *(trial.candidate() for trial in tried)))
    for trial in tried:
        is_slow = not is_fast(trial.rule, sample.d) and n_components * sample.d > ENTRIES_TO_DRAW
        if trial.candidate().error <= PROMISING * best and not is_slow:
            trial.run(most - first, rng)
    return [trial.candidate() for trial in tried]


def _rules_to_try(sample: Sample, n_components: int) -> Iterator[Rule]:
    """Yield rules without a closed form, the fastest first."""
    kernel, d = sample.kernel, sample.d
    spectrum, nonlinearity = kernel.spectrum, kernel.nonlinearity
    has_moments = False
    if isinstance(spectrum, IsotropicSpectrum):
        has_moments = bool(np.isfinite(spectrum.moment(d, 1.0)))
        if nonlinearity.homogeneity is not None:
            for directions in ("simplex", "orthoplex"):
                yield SphericalRadial(directions=directions, tilt="exact")
        elif not isinstance(nonlinearity, Fourier):
            for tilt in (0.0, 0.5, 1.0):
                if _usable(spectrum, d, tilt):
                    yield SphericalRadial(tilt=tilt, radii="stratified", origin="match")
        elif d < CLOSED_FORMS_FROM:
            yield from _spherical_radial_rules(spectrum, d, n_components)
        yield SphericalRadial(
            directions="orthoplex", tilt=0.0, radii="constant", rotation=Hadamard()
        )
    if d <= QUASI_UP_TO:
        layout = Layout.of(n_components, kernel, origin=False, reflect=True)
        enough = layout.n_nodes - layout.last_is_single >= MATCHED_FROM * d
        for sequence in ("halton", "sobol"):
            if has_moments and enough:
                yield QuasiMonteCarlo(sequence=sequence, matched=True)
            # Where dense nodes are slow, those without the right moments are not worth it.
            if d <= DENSE_UP_TO or not has_moments:
                yield QuasiMonteCarlo(sequence=sequence)
    if not isinstance(spectrum, IsotropicSpectrum):
        yield MonteCarlo()


@dataclass
class Trial:
    """Draws of a rule on the sample: of its blocks, and of what remains behind them."""

    rule: Rule
    sample: Sample
    n_blocks: int  # nodes in whole blocks
    n_rest: int  # nodes that remain
    block_columns: int
    rest_columns: int
    block_errors: list[float] = field(default_factory=list)
    rest_errors: list[float] = field(default_factory=list)

    @classmethod
    def of_whole(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial of a rule as it is, whatever remains."""
        return cls(rule, sample, n_components, 0, n_components, 0)

    @classmethod
    def of(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial that has not been run."""
        kernel = sample.kernel
        layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)
        whole, rest = rule.whole_and_rest(layout, rule.nodes_per_block(sample.d))
        if not whole:  # a single column is all there is
            return cls.of_whole(rule, sample, n_components)
        rest_columns = columns_per_node(kernel, layout.reflected) * rest - layout.last_is_single
        block_columns = n_components - rest_columns
        # Each part by itself has an origin, if the rule has one.
        rest_columns += layout.has_origin_column
        return cls(rule, sample, whole, rest, block_columns, rest_columns)

    def run(self, n_trials: int, rng: np.random.Generator) -> None:
        """Draw the rule some times more."""
        rest_rule = clone(self.rule)
        if isinstance(rest_rule, QuasiMonteCarlo):  # too few to be matched
            rest_rule.matched = False
        for _ in range(n_trials):
            self.block_errors.append(trial_error(self.rule, self.sample, self.block_columns, rng))
            if self.n_rest:
                self.rest_errors.append(trial_error(rest_rule, self.sample, self.rest_columns, rng))

    def candidate(self) -> Candidate:
        """Return the rule with the best weight of what remains, and its error."""
        error = float(np.mean(self.block_errors))
        spread = float(np.std(self.block_errors)) / error if error > 0 else 0.0
        rule = self.rule
        if self.n_rest:
            rest_error = float(np.mean(self.rest_errors))
            remainder, error = _best_remainder(error, rest_error, self.n_blocks, self.n_rest)
            rule = clone(rule).set_params(remainder=remainder)
        relative = _relative(error, self.sample)
        uncertainty = relative * spread / 2 / math.sqrt(max(1, len(self.block_errors) - 1))
        return Candidate(rule, relative, uncertainty, "trials")


def trial_error(rule: Rule, sample: Sample, n_components: int, rng: np.random.Generator) -> float:
    """Return the mean squared error of a draw of a rule, in units of the kernel's largest value."""
    kernel, rows = sample.kernel, sample.rows
    nodes = rule.draw(sample.d, n_components, kernel, rng)
    far = 2.0 * nodes.longest * sample.longest > farthest(kernel, np.float64)
    Z = np.empty((len(rows), n_components))
    compile_map(nodes, kernel, np.float64, far=far).write(rows, Z, 1)
    return sample.mean(((Z @ Z.T - sample.gram) / sample.unit) ** 2)


def _relative(mean_squared_error: float, sample: Sample) -> float:
    """Return the root of a mean squared error relative to the kernel's mean square."""
    if mean_squared_error == 0:
        return 0.0
    return math.sqrt(mean_squared_error / sample.mean_square) if sample.mean_square else math.inf

r"""``rule="auto"``: choose the rule with the smallest error on a sample of the rows.

For stationary kernels, the errors of spherical-radial rules have closed forms
(:mod:`quadfeat.auto.closed_forms`). Other rules and kernels are drawn a few times on the sample
(:mod:`quadfeat.auto.trials`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from quadfeat._utils import validation as check
from quadfeat.auto.candidates import ERROR_OF_ZEROS, Candidate
from quadfeat.auto.choices import Choices
from quadfeat.auto.closed_forms import ClosedForms
from quadfeat.auto.sample import N_ROWS, Sample
from quadfeat.auto.trials import Trial, trial_error, try_out
from quadfeat.kernels import IsotropicSpectrum, Kernel
from quadfeat.kernels.base import EVALUATIONS
from quadfeat.rotations import Hadamard
from quadfeat.rules import Layout, MonteCarlo, QuasiMonteCarlo, Rule, SphericalRadial
from quadfeat.rules.presets import NAMED

__all__ = [
    "EVALUATIONS",
    "N_ROWS",
    "Candidate",
    "Sample",
    "Selection",
    "Trial",
    "choose",
    "rules_to_consider",
    "trial_error",
]

# With many columns, the sample has fewer rows, so that its features have about this many entries.
FEWEST_ROWS = 64
ENTRIES_OF_SAMPLE = 2**16

TILTS = (0.0, 0.25, 0.5, 0.75, 1.0)

# In higher dimensions, low-discrepancy points are slow to draw and not better than random points.
QUASI_UP_TO = 256

# Matching second moments distorts the nodes unless there are this many times as many nodes as
# columns of the data.
MATCHED_FROM = 1.25

# A rule with dense nodes is chosen only if structured rules have an error larger by this factor.
WORTH_IT = 1.05


CHOICES: Choices[Selection] = Choices()

# Words for the directions or the sequence of a rule.
NODES = {
    "orthoplex": "orthogonal directions",
    "simplex": "simplex directions",
    "halton": "Halton points",
    "sobol": "Sobol points",
}


class Selection(NamedTuple):
    """The chosen rule, all candidates from best to worst, and the reason in a few sentences."""

    rule: Rule
    candidates: tuple[Candidate, ...]
    why: str

    @classmethod
    def given(cls, rule: Rule, *candidates: Candidate) -> Selection:
        """Return the selection of a rule that the user has given."""
        return cls(rule, candidates, f"The rule was given: {check.one_line(rule)}.")


def choose(sample: Sample, n_components: int, rng: np.random.Generator) -> Selection:
    """Return the best rule for a number of columns.

    The latest choices are kept, so that a search over other parameters makes each of them once.

    Parameters
    ----------
    sample : Sample
        Rows of the data, and the kernel.
    n_components : int
        Number of columns of the map.
    rng : numpy.random.Generator
        Generator for the trials.
    """
    return CHOICES.get(_rows_for(sample, n_components), n_components, rng, _choose)


def choose_in_closed_form(sample: Sample, n_components: int) -> Selection:
    """Return the best rule of those whose errors have closed forms, for :mod:`.budget`."""
    sample = _rows_for(sample, n_components)
    known, _ = _evaluated(sample, n_components)
    return _selected(known, sample, n_components)


def has_closed_forms(sample: Sample) -> bool:
    """Return whether the errors of some rules have closed forms on this sample."""
    return bool(_evaluated(sample, sample.d + 1)[0])


def _rows_for(sample: Sample, n_components: int) -> Sample:
    """Return the part of a sample on which rules with this many columns are compared."""
    if sample.d > QUASI_UP_TO:  # in higher dimensions there are few rules, so all rows are used
        return sample
    return sample.first(max(FEWEST_ROWS, ENTRIES_OF_SAMPLE // n_components))


def _choose(sample: Sample, n_components: int, rng: np.random.Generator) -> Selection:
    candidates, others = _evaluated(sample, n_components)
    candidates += try_out(others, sample, n_components, candidates, rng)
    return _selected(candidates, sample, n_components)


def _evaluated(sample: Sample, n_components: int) -> tuple[list[Candidate], list[Rule]]:
    """Return the candidates with closed forms, and the rules without one."""
    candidates, others, forms = [], [], ClosedForms(sample)
    for rule in rules_to_consider(sample, n_components):
        candidate = forms.candidate(rule, n_components)
        if candidate is None:
            others.append(rule)
        else:
            candidates.append(candidate)
    return candidates, others


def _selected(candidates: list[Candidate], sample: Sample, n_components: int) -> Selection:
    """Return the best candidate, or a faster one that is nearly as good."""
    ordered = tuple(sorted(candidates, key=lambda candidate: candidate.error))
    chosen = next((c for c in ordered if c.rule.is_fast(sample.d)), ordered[0])
    if chosen.error > WORTH_IT * ordered[0].error:
        chosen = ordered[0]
    return Selection(chosen.rule, ordered, _why(chosen, ordered, sample, n_components))


def rules_to_consider(sample: Sample, n_components: int) -> Iterator[Rule]:
    """Yield the rules that support the kernel, the fastest first."""
    kernel, d = sample.kernel, sample.d
    has_moments = False
    if kernel.spectrum.is_isotropic:
        spectrum = cast(IsotropicSpectrum, kernel.spectrum)
        has_moments = bool(np.isfinite(spectrum.moment(d, 1.0)))
        yield from _spherical_radial_rules(kernel, spectrum, d, n_components)
        yield SphericalRadial(
            directions="orthoplex", tilt=0.0, radii="constant", rotation=Hadamard()
        )
    if d <= QUASI_UP_TO:
        layout = Layout.of(n_components, kernel, origin=False, reflect=True)
        enough = layout.n_nodes - layout.last_is_single >= MATCHED_FROM * d
        for sequence in ("halton", "sobol"):
            rule = QuasiMonteCarlo(sequence=sequence)
            if has_moments and enough:
                yield QuasiMonteCarlo(sequence=sequence, matched=True)
            # If dense nodes are slow, only nodes with matched moments can be worth their cost.
            if rule.is_fast(d) or not has_moments:
                yield rule
    if not kernel.spectrum.is_isotropic:
        yield MonteCarlo()


def _spherical_radial_rules(
    kernel: Kernel, spectrum: IsotropicSpectrum, d: int, n_components: int
) -> Iterator[SphericalRadial]:
    """Yield the spherical-radial rules that support a kernel."""
    has_second, has_fourth = (bool(np.isfinite(spectrum.moment(d, t))) for t in (1.0, 2.0))
    order = kernel.nonlinearity.homogeneity
    if order is not None and np.isfinite(spectrum.moment(d, order)):
        for directions in ("simplex", "orthoplex"):
            yield SphericalRadial(directions=directions, tilt="exact")
        return
    if not kernel.is_stationary:
        origin = "match" if has_second else "renormalise"
        for tilt in (0.0, 0.5, 1.0):
            if spectrum.has_tilt(d, tilt):
                yield SphericalRadial(tilt=tilt, radii="stratified", origin=origin)
        return
    # Matching second moments stretches the nodes. Without fourth moments the stretch varies too
    # much.
    origin = "match" if has_fourth else "renormalise"
    for directions in ("simplex", "orthoplex"):
        for tilt in TILTS:
            if spectrum.has_tilt(d, tilt):
                yield SphericalRadial(
                    directions=directions, tilt=tilt, radii="stratified", origin=origin
                )
        if has_fourth and n_components > 1:  # one column is for the origin
            yield SphericalRadial(directions=directions, tilt="fixed")


def _why(
    chosen: Candidate, ordered: tuple[Candidate, ...], sample: Sample, n_components: int
) -> str:
    """Return the reason for the choice, in sentences that compare expected errors."""
    shown = _in_short(chosen.rule)
    text = (
        f"{shown[0].upper()}{shown[1:]} has an expected relative error of "
        f"{chosen.error:.3g} with {n_components} column{'s' if n_components > 1 else ''} "
        f"({chosen.method} on {len(sample.rows)} rows)."
    )
    if ordered[0].error > ERROR_OF_ZEROS:
        text += " This is larger than the error of zeros, so they do not approximate this kernel."
    best, *others = ordered
    if chosen is not best:
        shown = _in_short(best.rule)
        return (
            f"{text} {shown[0].upper()}{shown[1:]} has {best.error:.3g}, but is slower, since it "
            "multiplies by a dense matrix."
        )
    if not others:
        return f"{text} No other rule supports this kernel and number of columns."
    return (
        f"{text} The next best of {len(ordered)} candidates is {_in_short(others[0].rule)} "
        f"with {others[0].error:.3g}."
    )


def _in_short(rule: Rule) -> str:
    """Return a rule in words, then as an object with numbers rounded to three digits."""
    shown = check.one_line(rule)
    name = next((name for name, make in NAMED.items() if check.one_line(make()) == shown), None)
    nodes = NODES.get(getattr(rule, "directions", getattr(rule, "sequence", "")))
    shown = re.sub(r"\d+\.\d{3,}(e-?\d+)?", lambda n: f"{float(n[0]):.3g}", shown)
    if name is not None:
        return f"the rule {name!r} ({shown})"
    if nodes is None:
        return shown
    stratified = " and stratified radii" if getattr(rule, "radii", "") == "stratified" else ""
    return f"the rule with {nodes}{stratified} ({shown})"

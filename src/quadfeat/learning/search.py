"""Search for the best kernel: learn lengthscales, validate kernels and refine the best ones.

Lengthscales maximize the evidence of an exact Gaussian process on up to 2000 rows. Kernels are
compared by leave-one-out losses on other rows. The default kernel is always included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.learning import usual
from quadfeat.learning.candidates import Proposal
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import with_factors
from quadfeat.learning.lengthscales import MOST_STEPS, START_ALPHA, Learned, learn
from quadfeat.learning.race import Entry, Race
from quadfeat.learning.rounds import Rounds
from quadfeat.learning.sample import LearningSample

# With fewer rows than this, learned lengthscales are noise, so only the default kernel is used.
FEWEST_ROWS = 40

# Columns may share a unit if their standard deviations differ by less than this factor.
COMPARABLE = 100.0

# Number of rows to learn lengthscales from: first for all families, then for the best one if there
# are at least ENOUGH_MORE times as many rows.
FIRST_ROWS = 800
MORE_ROWS = 2000
ENOUGH_MORE = 1.5

# Number of steps for other families, which start from the lengthscales of the first family, and for
# more rows.
FAMILY_STEPS = 20
MORE_STEPS = 10

# On tables with many columns, a few hundred rows are too few: the evidence keeps increasing while
# the lengthscales overfit. With more than FEW_COLUMNS columns, or if lengthscales do not reduce the
# loss below WORTH_LENGTHSCALES times that of other kernels, they are also learned from more rows,
# with only a few steps from the default scale. On 60,000 rows of covtype with 1024 features, the
# accuracy is .805 after 10 steps, .798 after 20 and .793 after 40. The default kernel has .778, and
# lengthscales from 800 rows have .748.
FEW_COLUMNS = 16
WORTH_LENGTHSCALES = 0.95
FEW_STEPS = 10

# Maximum number of rows and of features in the two heats. A small heat is enough to compare
# families, but the best scale depends on the number of rows and features.
FIRST_HEAT = (4096, 512)
SECOND_HEAT = (6144, 768)

# Maximum number of columns for learning a lengthscale for each column, and for a full metric.
ARD_UP_TO = 512
FULL_UP_TO = 256

# Number of kernels that advance from the first heat to the second one, besides the default kernel.
FINALISTS = 3

# With few features, a wider or narrower kernel than that of the exact process can be better. On
# california with 1024 features, a Matern kernel that is 8 times narrower has a loss of .20 instead
# of .22. So try kernels that are narrower or wider by powers of a factor, up to a maximum power, as
# long as the loss decreases. The first heat does this for each finalist, and the second one for the
# best FINE_SCALED kernels.
COARSE_SCALES = (2.0, 4)
FINE_SCALES = (1.4, 2)
FINE_SCALED = 1

# Names of the kinds of lengthscales.
ONE_NAME = "one lengthscale"
EACH_NAME = "a lengthscale for each column"
FEW_STEPS_NAME = f"{EACH_NAME} after a few steps"


class Search:
    """Proposes kernels and compares them in two heats.

    Parameters
    ----------
    heat : callable
        Returns a race for a given number of rows and of features.
    families : dict of str to SeparationKernel
        Kernels whose scale is learned, by the name of their family.
    kind : {"isotropic", "ard", "full"}
        The most general kind of lengthscales to learn.
    others : bool, default=True
        Whether to try other kernels too, such as arc-cosine kernels.

    Attributes
    ----------
    race : Race
        The current heat.
    notes : list of str
        Sentences about steps that were skipped, and why.
    """

    def __init__(
        self,
        heat: Callable[[int, int], Race],
        families: dict[str, Any],
        kind: str,
        *,
        others: bool = True,
    ) -> None:
        self.heat = heat
        self.race = self._first = heat(*FIRST_HEAT)
        self.families = families
        self.kind = kind
        self.others = others
        self.notes: list[str] = []
        self._columns = self.race.sample.columns
        self._learned: dict[str, Learned] = {}

    @property
    def clock(self) -> Clock:
        """The clock of the search."""
        return self.race.clock

    @property
    def sample(self) -> LearningSample:
        """The rows to learn from."""
        return self.race.sample

    @property
    def default(self) -> Entry:
        """The entry of the default kernel in the first heat."""
        return self._first.best("default")

    @property
    def n_tried(self) -> int:
        """Number of kernels that were tried."""
        return len(self._first.tried | self.race.tried)

    def run(self) -> list[Entry]:
        """Run all stages within the time limit; return the entries, best first.

        Entries of the last heat come before those of the first heat. A kernel that ran in both
        heats is represented by its entry of the last heat.
        """
        first = self._first
        first.enter(self.default_proposal())  # regardless of the time limit
        try:
            for stage in self._stages():
                if self.clock.is_over():
                    self.notes.append(
                        f"The kernel search ended after its {self.clock.limit:g} seconds. Only "
                        "validation and the final fit came after that."
                    )
                    break
                stage()
        except KeyboardInterrupt:
            self.note_interrupt()
        last = self.race.entries if len(self.race.entries) > 1 else []
        found: dict[str, Entry] = {}
        for entry in sorted(last, key=_loss) + sorted(first.entries, key=_loss):
            found.setdefault(entry.candidate.name, entry)
        return list(found.values())

    def _stages(self) -> Iterator[Callable[[], Any]]:
        """Yield the stages of the search that follow the default kernel."""
        n_rows, d = self.sample.size, self.sample.d
        if n_rows < FEWEST_ROWS:
            self.notes.append(
                f"{n_rows} distinct rows are too few to learn lengthscales: at least {FEWEST_ROWS} "
                "are needed."
            )
            return
        if self.others and d <= ARD_UP_TO and self.sample.compressed is not None:
            yield self._enter_compressed
        deviations = self.sample.deviations
        if self.others and 1 < deviations.max() / deviations.min() < COMPARABLE:
            yield self._enter_common_unit
        names = list(self.families)
        each = self.kind != "isotropic" and 1 < d <= ARD_UP_TO
        for name in names[:1] if each else names:
            yield partial(self._enter_isotropic, name)
        if each:
            for name in names:
                yield partial(self._enter_ard, name)
            yield self._enter_few_steps
            yield self._enter_other_isotropic
        elif d > ARD_UP_TO:
            self.notes.append(
                f"A lengthscale for each column was not learned: X has {d} columns, more than the "
                f"limit of {ARD_UP_TO}."
            )
        if self.others and d <= ARD_UP_TO:
            yield self._enter_arc_cosine
        yield self._enter_coarse_scales
        yield self._begin_second_heat
        yield self._enter_more_rows
        yield self._enter_fine_scales
        if self.kind == "full" and 1 < d <= FULL_UP_TO and self._is_learnable():
            yield self._enter_metrics

    def note(self, text: str) -> None:
        """Add a note unless it is already there."""
        if text not in self.notes:
            self.notes.append(text)

    def note_interrupt(self) -> None:
        """Stop the clock, and add a note that the search was interrupted."""
        self.clock.stop()
        self.note(f"The search was interrupted after {self.clock.seconds:.0f} seconds.")

    def _is_learnable(self) -> bool:
        """Return whether any kernel predicts better than a constant."""
        return self.race.best().loss < 1.0 or self.sample.classes is not None

    def _begin_second_heat(self) -> None:
        """Enter the default kernel and the best kernels of the first heat into the second."""
        race = self.heat(*SECOND_HEAT)
        if (race.n_rows, race.n_columns) == (self.race.n_rows, self.race.n_columns):
            return  # the results would not change
        chosen = [self.default, *self._leaders()]
        self.race = race
        for entry in chosen:
            self.race.enter(entry.proposal)
            if self.clock.is_over():
                return

    def _leaders(self) -> list[Entry]:
        """Return the best entries, each at its best scale, without the default kernel."""
        found: dict[str, Entry] = {}
        for entry in sorted(self.race.entries, key=_loss):
            if entry.proposal.kind != "default":
                found.setdefault(entry.proposal.base_name, entry)
        return list(found.values())[:FINALISTS]

    def default_proposal(self) -> Proposal:
        """Return the Gaussian or the given kernel with its default scale, on standardized rows."""
        if self.others:
            return usual.default(self.sample)
        return usual.default(self.sample, *next(iter(self.families.items())))

    def _enter_common_unit(self) -> None:
        """Enter the default scale for columns that may share a unit, such as pixels."""
        self.race.enter(usual.common_unit(self.sample))

    def _enter_compressed(self) -> None:
        """Enter columns with compressed tails, and keep them for later stages if better."""
        proposal = usual.compressed(self.sample)
        if self.race.enter(proposal).loss < self.race.best("default").loss:
            self._columns = proposal.columns

    def _enter_isotropic(self, name: str) -> None:
        """Enter a family with one learned lengthscale for standardized columns."""
        self._enter_learned(name, "isotropic", f"{name}, {ONE_NAME}")

    def _enter_ard(self, name: str) -> None:
        """Enter a family with a learned lengthscale for each column."""
        start = next(iter(self._learned.values()), None)  # that of the first family
        steps = FAMILY_STEPS if start is not None and start.has_scale_per_input else MOST_STEPS
        self._enter_learned(name, "ard", f"{name}, {EACH_NAME}", start=start, max_steps=steps)

    def _enter_few_steps(self) -> None:
        """Enter lengthscales after a few steps on more rows, shared by all families."""
        each = [one for one in self.race.entries if one.proposal.kind == "ard"]
        others, d = self.race.best("default", "compressed", "isotropic"), self.sample.d
        n_rows = min(MORE_ROWS, self.race.n_learning)
        gains = bool(each) and min(each, key=_loss).loss < WORTH_LENGTHSCALES * others.loss
        if n_rows < ENOUGH_MORE * FIRST_ROWS or (d <= FEW_COLUMNS and gains):
            return
        family = next(iter(self.families))
        kernel = self.families[family]
        start = with_factors(kernel, np.full(d, kernel.usual_factor(d)))
        entry = self._enter_learned(
            family,
            "early",
            f"{family}, {FEW_STEPS_NAME}",
            n_rows=n_rows,
            start=Learned(start, START_ALPHA, 0.0, 0),
            max_steps=FEW_STEPS,
        )
        if entry is not None:
            self._enter_same(entry, FEW_STEPS_NAME)

    def _enter_other_isotropic(self) -> None:
        """Enter the single learned lengthscale for other families, if it is the best so far."""
        entry = self.race.best()
        if entry.proposal.family and entry.proposal.kind == "isotropic":
            self._enter_same(entry, ONE_NAME)

    def _enter_same(self, entry: Entry, name: str) -> None:
        """Enter other families with the lengthscales of an entry, relative to the defaults."""
        d, columns, kind = self.sample.d, entry.proposal.columns, entry.proposal.kind
        learned: Any = entry.proposal.kernel
        ratios = learned.input_factor(d) / learned.usual_factor(d)
        for family, kernel in self.families.items():
            if self.clock.is_over():
                return
            if family != entry.proposal.family:
                same = with_factors(kernel, np.broadcast_to(ratios, d) * kernel.usual_factor(d))
                self.race.enter(Proposal(f"{family}, {name}", same, columns, family, kind))

    def _enter_more_rows(self) -> None:
        """Learn the lengthscales of the best family again from more rows."""
        learned = [one for one in self.race.entries if one.proposal.kind in ("ard", "early")]
        n_rows = min(MORE_ROWS, self.race.n_learning)
        if n_rows < ENOUGH_MORE * FIRST_ROWS or not learned:
            return
        best = min(learned, key=_loss)
        if best.proposal.kind == "early":
            return
        family = best.proposal.family
        self._enter_learned(
            family,
            "ard",
            f"{family}, {EACH_NAME}, from {n_rows} rows",
            n_rows=n_rows,
            multiple=best.proposal.multiple,
            start=self._learned[family],
            max_steps=MORE_STEPS,
        )

    def _enter_learned(
        self,
        family: str,
        kind: str,
        name: str,
        n_rows: int | None = None,
        multiple: float = 1.0,
        **options: Any,
    ) -> Entry | None:
        """Learn lengthscales by the evidence, and enter the kernel, narrower by ``multiple``.

        If learning fails and other kernels can be tried, add a note and return None.
        """
        self.clock.show(f"learning {name}")
        start, sample = time.monotonic(), self.sample
        rows = slice(min(FIRST_ROWS, self.race.n_learning) if n_rows is None else n_rows)
        try:
            learned = learn(
                self.families[family],
                self._columns.standard(sample.rows[rows]),
                sample.Y[rows],
                sample.weights[rows],
                each=kind != "isotropic",
                ranges=self._ranges(),
                stop=self.clock.is_over,
                **options,
            )
        except ValueError as error:
            if not self.others:
                raise
            self.note(f"{name} was skipped: {error}")
            return None
        if kind != "early":
            self._learned[family] = learned
        seconds = time.monotonic() - start
        proposal = Proposal(name, learned.kernel, self._columns, family, kind)
        if multiple != 1.0:
            proposal = proposal.narrower(multiple, sample.d)
        return self.race.enter(replace(proposal, seconds=seconds))

    def _ranges(self) -> Float64Array:
        """Return the ranges of the standardized columns."""
        ends, d = self.sample.ends, self.sample.d
        low, high = (
            self._columns.standard(end[None, :d])[0] for end in (ends.lowest, ends.highest)
        )
        return high - low

    def _enter_coarse_scales(self) -> None:
        """Enter wider and narrower versions of the best kernels."""
        for entry in self._leaders():
            self._try_scales(entry, *COARSE_SCALES)

    def _enter_fine_scales(self) -> None:
        """Enter slightly wider and narrower versions of the best kernels."""
        for entry in self._leaders()[:FINE_SCALED]:
            self._try_scales(entry, *FINE_SCALES)

    def _try_scales(self, first: Entry, step: float, most_steps: int) -> None:
        """Enter narrower versions of a kernel, or else wider ones, while the loss decreases."""
        for factor in (step, 1.0 / step):
            best = first
            for power in range(1, most_steps + 1):
                if self.clock.is_over():
                    return
                entry = self.race.enter(first.proposal.narrower(factor**power, self.sample.d))
                if entry.loss >= best.loss:
                    break
                best = entry
            if best is not first:
                return

    def _enter_arc_cosine(self) -> None:
        """Enter arc-cosine kernels with the default scale and with the learned lengthscales."""
        d, columns = self.sample.d, self._columns
        self.race.enter(usual.first_arc_cosine(columns, np.full(d, 1.0 / np.sqrt(d))))
        learned_each = any(one.has_scale_per_input for one in self._learned.values())
        if learned_each and not self.clock.is_over():
            best: Any = self.race.best("ard", "early").proposal.kernel
            learned = np.broadcast_to(best.input_factor(d), d)
            self.race.enter(usual.first_arc_cosine(columns, learned, ", learned column weights"))

    def _enter_metrics(self) -> None:
        """Enter kernels with a full metric from the gradients of the best model so far."""
        rounds = Rounds(self._first, self.race, self.families)
        self.notes += rounds.run()


def _loss(entry: Entry) -> float:
    return entry.loss

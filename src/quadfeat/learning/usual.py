"""Kernels that a search enters with their usual scales, without learning lengthscales."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Gaussian
from quadfeat.learning.candidates import Proposal, arc_cosine
from quadfeat.learning.columns import Columns, with_factors
from quadfeat.learning.sample import LearningSample


def default(sample: LearningSample, name: str = "Gaussian", kernel: Any = None) -> Proposal:
    """Return a kernel with its default scale, on standardized rows."""
    kernel = Gaussian() if kernel is None else kernel
    columns, factor = sample.columns, kernel.usual_factor(sample.d)
    scaled = with_factors(kernel, factor * columns.units / sample.deviations)
    return Proposal(f"default: {name}", scaled, columns, "", "default")


def common_unit(sample: LearningSample) -> Proposal:
    """Return the default kernel for columns that may share a unit, such as pixels."""
    kernel, columns = Gaussian(), sample.columns
    unit = float(np.sqrt(np.mean(sample.deviations**2)))
    common = with_factors(kernel, kernel.usual_factor(sample.d) * columns.units / unit)
    return Proposal("Gaussian, columns in a common unit", common, columns, "", "isotropic")


def compressed(sample: LearningSample) -> Proposal:
    """Return the default kernel on columns with compressed tails, which the sample must have."""
    columns, kernel = sample.compressed, Gaussian()
    assert columns is not None
    scaled = with_factors(kernel, np.full(sample.d, kernel.usual_factor(sample.d)))
    return Proposal("Gaussian, compressed tails", scaled, columns, "", "compressed")


def first_arc_cosine(columns: Columns, factors: Float64Array, which: str = "") -> Proposal:
    """Return the arc-cosine kernel of order 1 with some factors of columns."""
    name = f"arc-cosine of order 1{which}"
    return Proposal(name, arc_cosine(factors), columns, "", "arc-cosine")

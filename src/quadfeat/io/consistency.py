"""Whether the parts of a fitted map or model fit together: what a file of unknown origin has to do.

Features are computed by native code from the arrays of a map, and solved for by LAPACK from those
of a model. These checks see to that such arrays have the types, shapes and values that fitting
gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from quadfeat._utils import random as _random
from quadfeat._utils import validation as check
from quadfeat.auto.selection import Candidate
from quadfeat.data.sampling import RowSample
from quadfeat.kernels import Kernel
from quadfeat.maps.kernel_error import KernelError
from quadfeat.models.base import GRAM_DTYPES, IterativeSolution, Penalty, QuadratureModel, Solution
from quadfeat.models.features import QuadratureFeatures, States
from quadfeat.models.ridge import QuadratureRidgeClassifier
from quadfeat.rotations import (
    ButterflyMatrices,
    DenseMatrices,
    HadamardMatrices,
    Reflections,
    power_of_two,
)
from quadfeat.rules import FastfoodMatrices, Rule
from quadfeat.rules.nodes import DenseDirections, Nodes, TurnedVertices, columns_per_node
from quadfeat.solvers.conjugate import Nystrom, State
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.posterior import AlphaPath, Posterior, RidgeProblem
from quadfeat.solvers.summaries import Summary

Shape = tuple[int, ...]


def check_fitted(model: Any) -> None:
    """Raise an error if a map or model is fitted and its parts do not fit together.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from quadfeat import QuadratureFeatures
    >>> features = QuadratureFeatures(n_components=4, rule="rff").fit([[0.0], [1.0]])
    >>> check_fitted(features)
    >>> features.nodes_ = replace(features.nodes_, radii=features.nodes_.radii[:1])
    >>> check_fitted(features)
    Traceback (most recent call last):
    ...
    ValueError: radii of nodes_ has shape (1,), not (2,)
    """
    if isinstance(model, QuadratureFeatures):
        if hasattr(model, "nodes_"):
            _check_map(model)
        return
    given = model.features
    if isinstance(given, FrozenEstimator):
        given = given.estimator
    if isinstance(given, QuadratureFeatures):
        check_fitted(given)
    if hasattr(model, "features_"):
        _check_model(model)


# What values are.


def _expect(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)


def _check_kind(value: Any, kinds: type[Any] | tuple[type[Any], ...], name: str) -> None:
    _expect(isinstance(value, kinds), f"{name} is a {type(value).__name__}")


def _check_flag(value: Any, name: str) -> None:
    _expect(isinstance(value, (bool, np.bool_)), f"{name} is {value!r}, not a truth value")


def _check_finite(value: Any, name: str) -> None:
    _expect(check.is_number(value) and bool(np.isfinite(value)), f"{name} is {value!r}")


def _check_array(value: Any, shape: Shape, dtype: Any, name: str) -> None:
    """Expect an array of finite numbers."""
    _check_kind(value, np.ndarray, name)
    _expect(value.dtype == dtype, f"{name} has the dtype {value.dtype}, not {np.dtype(dtype)}")
    _expect(value.shape == shape, f"{name} has shape {value.shape}, not {shape}")
    _expect(bool(np.isfinite(value).all()), f"{name} is not finite")


def _check_permutations(value: Any, shape: Shape, name: str) -> None:
    _check_array(value, shape, np.int32, name)
    in_order = np.arange(shape[-1], dtype=np.int32)
    _expect(bool((np.sort(value, axis=-1) == in_order).all()), f"{name} are no permutations")


def _check_signs(value: Any, shape: Shape, dtype: Any, name: str) -> None:
    _check_array(value, shape, dtype, name)
    _expect(bool((np.abs(value) == 1).all()), f"{name} are not signs")


# Maps.


def _check_map(features: QuadratureFeatures) -> None:
    d = check.check_count(features.n_features_in_, "n_features_in_")
    n_components = check.check_count(features.n_components_, "n_components_")
    kernel, nodes = features.kernel_, features.nodes_
    _check_kind(kernel, Kernel, "kernel_")
    kernel.input_factor(d)
    kernel.nonlinearity, kernel.spectrum  # noqa: B018  # complain about parameters
    _check_kind(features.rule_, Rule, "rule_")
    _check_kind(nodes, Nodes, "nodes_")
    _check_nodes(nodes, kernel, d)
    n_columns = nodes.n_columns(kernel)
    _expect(
        n_columns == n_components == features._n_features_out,
        f"nodes_ have {n_columns} columns, and n_components_ is {n_components}",
    )
    _check_kind(features._states, States, "_states")
    for state in features._states:
        _random.check_state(state)
    _check_flag(features._reweighted, "_reweighted")
    _check_kind(features.why_, str, "why_")
    _check_kind(features.candidates_, tuple, "candidates_")
    for candidate in features.candidates_:
        _check_kind(candidate, Candidate, "an item of candidates_")
        _check_kind(candidate.rule, Rule, "rule of an item of candidates_")
    if hasattr(features, "approximation_error_"):  # a map that has grown has none
        _check_kind(features.approximation_error_, KernelError, "approximation_error_")
    if features.n_components_bound_ is not None:
        check.check_count(features.n_components_bound_, "n_components_bound_")
    _check_names(features, d)


def _check_names(model: Any, d: int) -> None:
    """Expect a name for each column, if there are any."""
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_
        _check_kind(names, np.ndarray, "feature_names_in_")
        _expect(names.shape == (d,), f"feature_names_in_ has shape {names.shape}, not {(d,)}")
        for name in names:
            _check_kind(name, str, "an item of feature_names_in_")


def _check_nodes(nodes: Nodes, kernel: Kernel, d: int) -> None:
    directions: Any = nodes.directions
    _check_kind(directions, (DenseDirections, TurnedVertices), "directions of nodes_")
    if isinstance(directions, DenseDirections):
        matrix = directions.matrix
        _check_kind(matrix, np.ndarray, "matrix of nodes_")
        _check_array(matrix, (*matrix.shape[:1], d), np.float64, "matrix of nodes_")
    else:
        _check_vertices(directions, d)
    n_nodes = directions.count
    _expect(n_nodes >= 1, "nodes_ have no directions")
    for name in ("radii", "weights"):
        values = getattr(nodes, name)
        _check_array(values, (n_nodes,), np.float64, f"{name} of nodes_")
        _expect(bool((values >= 0).all()), f"{name} of nodes_ are negative")
    for name in ("origin_weight", "phase"):
        _check_finite(getattr(nodes, name), f"{name} of nodes_")
    for name in ("has_origin_column", "reflected", "last_is_single"):
        _check_flag(getattr(nodes, name), f"{name} of nodes_")
    _expect(
        nodes.origin_weight >= 0 or not nodes.has_origin_column,
        f"the origin of nodes_ has a column, and the weight {nodes.origin_weight!r}",
    )
    _expect(
        not nodes.reflected or not kernel.nonlinearity.is_even,
        "nodes_ have reflections, which the kernel has no use for",
    )
    _expect(
        not nodes.last_is_single or columns_per_node(kernel, nodes.reflected) == 2,
        "the last of nodes_ has one column of one",
    )


def _check_vertices(directions: TurnedVertices, d: int) -> None:
    matrices: Any = directions.matrices
    name = "matrices of nodes_"
    _check_flag(directions.simplex, "simplex of nodes_")
    count = check.check_count(directions.count, "count of nodes_")
    _expect(directions.d == d, f"nodes_ are for {directions.d} columns, not {d}")
    kinds = (DenseMatrices, Reflections, ButterflyMatrices, HadamardMatrices, FastfoodMatrices)
    _check_kind(matrices, kinds, name)
    for part, value in vars(matrices).items():
        _check_kind(value, np.ndarray, f"{part} of nodes_")
    _expect(_leading_array(matrices).ndim == _dimensions(matrices), f"{name} have no such shape")
    n_blocks, size = matrices.count, matrices.size
    padded = isinstance(matrices, (HadamardMatrices, FastfoodMatrices))
    expected = power_of_two(d) if padded else d
    _expect(size == expected, f"{name} have the size {size}, not {expected}")
    if isinstance(matrices, DenseMatrices):
        _check_array(matrices.matrices, (n_blocks, d, d), np.float64, name)
    elif isinstance(matrices, Reflections):
        _check_array(matrices.vectors, (n_blocks, d - 1, d), np.float64, name)
        _check_signs(matrices.signs, (n_blocks, d), np.float64, name)
    elif isinstance(matrices, ButterflyMatrices):
        rounds = matrices.permutations.shape[1]
        _expect(rounds >= 1, f"{name} have no rounds")
        _check_permutations(matrices.permutations, (n_blocks, rounds, d), name)
        for angles in (matrices.cosines, matrices.sines):
            _check_array(angles, (n_blocks, rounds, d - 1), np.float64, name)
    elif isinstance(matrices, HadamardMatrices):
        rounds = matrices.signs.shape[1]
        _expect(rounds >= 1, f"{name} have no rounds")
        _check_signs(matrices.signs, (n_blocks, rounds, size), np.int8, name)
    else:
        _check_signs(matrices.signs, (n_blocks, size), np.int8, name)
        _check_permutations(matrices.permutations, (n_blocks, size), name)
        _check_array(matrices.gaussian, (n_blocks, size), np.float64, name)
    needed = -(-count // (size + bool(directions.simplex)))
    _expect(n_blocks == needed, f"nodes_ have {n_blocks} blocks and need {needed}")


def _leading_array(matrices: Any) -> Any:
    """Return the array that tells how many matrices there are, and how large."""
    if isinstance(matrices, DenseMatrices):
        return matrices.matrices
    return matrices.permutations if isinstance(matrices, ButterflyMatrices) else matrices.signs


def _dimensions(matrices: Any) -> int:
    return 2 if isinstance(matrices, (Reflections, FastfoodMatrices)) else 3


# Models.


def _check_model(model: QuadratureModel) -> None:
    features, solution = model.features_, model._solution
    _check_kind(features, QuadratureFeatures, "features_")
    _expect(hasattr(features, "nodes_"), "features_ is not fitted")
    _check_map(features)
    d = check.check_count(model.n_features_in_, "n_features_in_")
    _expect(
        d == features.n_features_in_,
        f"the model is for {d} columns, and its map for {features.n_features_in_}",
    )
    _check_names(model, d)
    _check_kind(solution, (Solution, IterativeSolution), "_solution")
    is_classifier = isinstance(model, QuadratureRidgeClassifier)
    classes: Any = model.classes_ if is_classifier else None
    if is_classifier:
        _check_classes(classes, "classes_")
    if isinstance(solution, IterativeSolution):
        n_outputs = _check_iterative(solution, features.n_components_)
    else:
        n_outputs = _check_solution(solution, features.n_components_, d, classes)
    if is_classifier:
        expected = 1 if len(classes) == 2 else len(classes)
    else:
        _check_flag(model._one_output, "_one_output")
        expected = 1 if model._one_output else n_outputs
    _expect(n_outputs == expected, f"there are {n_outputs} outputs and not {expected}")
    if hasattr(model, "_declared"):
        _check_flag(model._declared, "_declared")
    if hasattr(model, "_balanced"):
        _check_kind(model._balanced, dict, "_balanced")
    if hasattr(model, "_fitted_with"):
        _check_texts(model._fitted_with, "_fitted_with")


def _check_classes(classes: Any, name: str) -> None:
    _check_kind(classes, np.ndarray, name)
    _expect(classes.ndim == 1 and len(classes) >= 1, f"{name} has shape {classes.shape}")
    _expect(bool((classes[1:] > classes[:-1]).all()), f"{name} are not ascending")


def _check_coefficients(found: Any, n_components: int, n_outputs: int) -> None:
    _check_array(
        found.coefficients, (n_components, n_outputs), np.float64, "coefficients of _solution"
    )
    _check_array(found.intercept, (n_outputs,), np.float64, "intercept of _solution")


def _check_iterative(solution: IterativeSolution, n_components: int) -> int:
    """Check what conjugate gradients have found, and return how many outputs it predicts."""
    n_outputs = (*np.shape(solution.coefficients), 0, 0)[1]
    _expect(n_outputs >= 1, "coefficients of _solution have no columns")
    _check_coefficients(solution, n_components, n_outputs)
    check.check_positive(solution.alpha, "alpha of _solution")
    check.check_count(solution.n_iter, "n_iter of _solution", 0)
    _expect(check.is_number(solution.error), "error of _solution is no number")
    return n_outputs


def _check_solution(solution: Solution, n_components: int, d: int, classes: Any) -> int:
    """Check what a model knows of its rows, and return how many outputs it predicts."""
    summary, problem = solution.summary, solution.problem
    _check_kind(summary, Summary, "summary of _solution")
    _check_moments(summary.moments, n_components)
    _expect((summary.classes is None) == (classes is None), "classes of _solution do not fit")
    if summary.classes is None:
        _expect(summary.rows is None, "_solution has rows")
    else:
        _check_classes(summary.classes, "classes of _solution")
        _expect(np.array_equal(summary.classes, classes), "classes_ are not those of _solution")
        _expect(len(classes) == summary.moments.n_outputs, "classes_ are not as many as outputs")
        _check_rows(summary.rows, d + 1)
        _check_indices(summary)
    n_outputs = _check_problem(problem, summary.moments)
    _check_kind(solution.penalty, Penalty, "penalty of _solution")
    Penalty.of(
        solution.penalty.criterion if solution.penalty.alpha is None else solution.penalty.alpha,
        solution.penalty.alphas,
    )
    check.check_choice(solution.dtype, "dtype of _solution", GRAM_DTYPES)
    if solution.temperature is not None:
        check.check_positive(solution.temperature, "temperature of _solution")
    if "posterior" in vars(solution):
        _check_posterior(solution.posterior, n_components, n_outputs, summary.moments)
    return n_outputs


def _check_moments(moments: Any, n_components: int) -> None:
    _check_kind(moments, Moments, "moments of _solution")
    _check_kind(moments.shift, np.ndarray, "shift of _solution")
    shift, name = moments.shift, "products of _solution"
    _check_array(shift, shift.shape[:1], np.float64, "shift of _solution")
    _expect(shift.ndim == 1 and len(shift) >= 1, "shift of _solution has no such shape")
    width = n_components + len(shift) + 1
    _check_array(moments.products, (width, width), np.float64, name)
    _expect(moments.products.flags.f_contiguous, f"{name} are not in Fortran order")
    check.check_count(moments.n_rows, "n_rows of _solution", 0)
    _check_array(moments.control, (n_components,), np.float64, "control of _solution")


def _check_rows(rows: Any, width: int) -> None:
    name = "rows of _solution"
    _check_kind(rows, RowSample, name)
    n_rows = len(rows.keys) if isinstance(rows.keys, np.ndarray) and rows.keys.ndim == 1 else -1
    _check_array(rows.keys, (n_rows,), np.uint64, name)
    _check_array(rows.rows, (n_rows, width), np.float64, name)
    _check_array(rows.weights, (n_rows,), np.float64, name)
    _expect(check.check_count(rows.size, name) >= n_rows, f"there are too many {name}")


def _check_indices(summary: Summary) -> None:
    """Expect the last column of the rows to have indices of classes."""
    assert summary.rows is not None
    assert summary.classes is not None
    which = summary.rows.rows[:, -1]
    known = (which >= 0) & (which < len(summary.classes)) & (which == np.floor(which))
    _expect(bool(known.all()), "rows have other classes")


def _check_texts(value: Any, name: str) -> None:
    _check_kind(value, dict, name)
    for item in (*value, *value.values()):
        _check_kind(item, str, f"an item of {name}")


# Unfinished fits.


def check_state(kept: Any) -> None:
    """Raise an error if what was read of a checkpoint does not fit together."""
    _check_kind(kept, dict, "the checkpoint")
    _expect(set(kept) == {"identity", "rows", "state"}, f"the checkpoint has {sorted(kept)}")
    _check_kind(kept["identity"], dict, "identity")
    _check_kind(kept["rows"], str, "rows")
    state = kept["state"]
    _check_kind(state, dict, "state")
    _check_kind(state["map"], str, "map")
    features = state["features"]
    if features is not None:
        _check_kind(features, QuadratureFeatures, "features")
        _expect(hasattr(features, "nodes_"), "features are not fitted")
        _check_map(features)
    if "iteration" in state:
        if state["iteration"] is not None:
            _check_iteration(state["iteration"])
        return
    check.check_count(state["n_done"], "n_done", 0)
    check.check_count(state["size"], "size")
    check.check_choice(state["dtype"], "dtype", GRAM_DTYPES)
    summary = state["summary"]
    if summary is not None:
        _check_kind(summary, Summary, "summary")
        _check_kind(summary.moments, Moments, "moments")
        width = np.shape(summary.moments.products)[0] - np.shape(summary.moments.shift)[0] - 1
        _check_moments(summary.moments, width)
        if features is not None:
            _expect(width == features.n_components_, "moments are those of another map")
        if summary.classes is not None:
            _check_classes(summary.classes, "classes")
            _check_kind(summary.rows, RowSample, "rows")
            _check_rows(summary.rows, np.shape(summary.rows.rows)[1])
            _check_indices(summary)


def _check_iteration(step: Any) -> None:
    """Expect a state of conjugate gradients whose arrays fit together."""
    _check_kind(step, State, "iteration")
    _check_kind(step.approximation, Nystrom, "approximation")
    shape = np.shape(step.coefficients)
    _expect(len(shape) == 2, f"coefficients have shape {shape}")
    for name in ("coefficients", "residual"):
        _check_array(getattr(step, name), shape, np.float64, name)
    n_directions = (*np.shape(step.directions), 0, 0)[1]
    _check_array(step.directions, (shape[0], n_directions), np.float64, "directions")
    rank = np.size(step.approximation.values)
    _check_array(step.approximation.values, (rank,), np.float64, "values")
    _check_array(step.approximation.vectors, (shape[0], rank), np.float64, "vectors")
    check.check_positive(step.approximation.alpha, "alpha")
    for number in (step.approximation.excess, step.trust):
        _check_finite(number, "excess and trust")
    for name in ("errors", "checked_at", "bounds", "roundings", "totals"):
        values = getattr(step, name)
        _check_kind(values, list, name)
        for value in values:
            _expect(check.is_number(value), f"{name} are no numbers")


def _check_problem(problem: Any, moments: Moments) -> int:
    """Check what is solved, and return how many outputs it has."""
    _check_kind(problem, RidgeProblem, "problem of _solution")
    _expect(problem.moments.products is moments.products, "_solution has two summaries")
    _expect(np.array_equal(problem.moments.shift, moments.shift), "_solution has two summaries")
    _check_flag(problem.intercept, "intercept of _solution")
    if problem.transform is None:
        return moments.n_outputs
    n_outputs = (*np.shape(problem.transform), 0, 0)[1]
    _expect(n_outputs >= 1, "transform of _solution has no columns")
    _check_array(
        problem.transform,
        (moments.n_outputs + 1, n_outputs),
        np.float64,
        "transform of _solution",
    )
    return n_outputs


def _check_posterior(found: Any, n_components: int, n_outputs: int, moments: Moments) -> None:
    _check_kind(found, Posterior, "posterior of _solution")
    _check_coefficients(found, n_components, n_outputs)
    check.check_positive(found.alpha, "alpha of _solution")
    _expect(check.is_number(found.log_evidence), "log_evidence of _solution is no number")
    # NaN for outputs whose targets are all equal.
    variance, name = found.signal_variance, "signal_variance of _solution"
    _check_kind(variance, np.ndarray, name)
    _check_array(np.nan_to_num(variance, nan=0.0, posinf=np.inf), (n_outputs,), np.float64, name)
    _expect(_check_problem(found.problem, moments) == n_outputs, "_solution has two problems")
    path = found.path
    if path is not None:
        _check_kind(path, AlphaPath, "path of _solution")
        _check_kind(path.alphas, np.ndarray, "alphas of _solution")
        _check_array(path.alphas, path.alphas.shape[:1], np.float64, "alphas of _solution")
        for values in (path.gcv, path.log_evidence, path.loo):
            if values is not None:  # infinite where there is nothing left to judge by
                _check_kind(values, np.ndarray, "path of _solution")
                _expect(values.shape == path.alphas.shape, "path of _solution has two lengths")

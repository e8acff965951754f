"""The criteria by which a model has selected its penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat.plots.axes import axes_for, log_scale

CRITERIA = ("auto", "loo", "gcv", "evidence")


def alpha_path(model: Any, *, criterion: str = "auto", ax: Any = None) -> Any:
    """Plot the criteria for ``alpha`` that a model has computed, and the alpha it selected.

    Parameters
    ----------
    model : QuadratureRidge or QuadratureRidgeClassifier
        A fitted model with ``alpha="auto"`` or another criterion.
    criterion : {"auto", "loo", "gcv", "evidence"}, default="auto"
        ``"loo"`` is the mean squared leave-one-out error. The band around it is the standard error
        of the difference from its smallest value. ``"gcv"`` is generalized cross-validation, and
        ``"evidence"`` the log marginal likelihood. ``"auto"`` shows both errors if they are known,
        and the evidence otherwise.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from quadfeat import QuadratureRidge, plots
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = QuadratureRidge("gaussian", n_components=64, random_state=0).fit(X, y)
    >>> ax = plots.alpha_path(model)
    >>> ax.get_xlabel()
    'alpha'
    """
    check.check_choice(criterion, "criterion", CRITERIA)
    ax = axes_for(ax, "alpha_path")
    path = model.path_
    if path is None:
        raise ValueError(
            f"the model has no path of alphas, because alpha={check.one_line(model.alpha)} is "
            "fixed. Fit it with alpha='auto'."
        )
    errors = {
        "leave-one-out": path.loo if criterion in ("auto", "loo") else None,
        "GCV": path.gcv if criterion in ("auto", "gcv") else None,
    }
    known = {name: values for name, values in errors.items() if _is_known(values)}
    if known:
        _draw_errors(ax, path, known)
    elif criterion in ("auto", "evidence"):
        ax.plot(path.alphas, path.log_evidence, marker=".", label="evidence")
        ax.set(ylabel="log marginal likelihood")
    else:
        raise ValueError(
            f"criterion={criterion!r} was not computed for this model. Use criterion='auto', or "
            f"fit the model with alpha={criterion!r}."
        )
    ax.axvline(model.alpha_, color="gray", linestyle=":", label=f"selected: {model.alpha_:.3g}")
    ax.set(xscale="log", xlabel="alpha")
    ax.legend()
    return ax


def _is_known(values: Any) -> bool:
    return values is not None and bool(np.isfinite(values).any())


def _draw_errors(ax: Any, path: Any, errors: dict[str, Any]) -> None:
    """Draw mean squared errors, and the uncertainty of leave-one-out errors."""
    for name, values in errors.items():
        finite = np.isfinite(values)
        style = "-" if name == "leave-one-out" else "--"
        (line,) = ax.plot(path.alphas[finite], values[finite], style, marker=".", label=name)
        if name == "leave-one-out" and _is_known(path.loo_error):
            low, high = values - path.loo_error, values + path.loo_error
            drawn = finite & (low > 0)
            ax.fill_between(
                path.alphas[drawn], low[drawn], high[drawn], color=line.get_color(), alpha=0.2
            )
    ax.set_ylabel("mean squared error")
    log_scale(ax)

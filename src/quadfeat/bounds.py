r"""Evaluate the error bounds of the paper, as printed.

The paper is Munkhoeva, Kapushev, Burnaev, Oseledets, "Quadrature-based features for kernel
approximation" (NeurIPS 2018), section 3 and appendix A. Each function evaluates one formula, and
its docstring lists the errors in the printed proof. Do not take the bounds as guarantees.

Symbols: ``d`` is the input dimension, ``D`` the number of features, ``l`` the diameter of the data
in the kernel's scaled inputs, ``sigma_p`` the standard deviation of the frequencies, ``kappa``
and ``mu`` upper bounds of :math:`|\phi|` and :math:`|\phi'|`, and ``M`` an upper bound of
:math:`|1 - f(\rho z)| / \rho^2`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from quadfeat._utils import validation as check

__all__ = [
    "beta_d",
    "n_components_for_ridge_error",
    "n_components_for_sup_error",
    "rff_n_components_for_sup_error",
    "rff_sup_error_probability",
    "ridge_error",
    "sup_error_probability",
    "variance",
]


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _in_range(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Raise an error that names the arguments if a result is beyond the range of float64."""

    @functools.wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except (OverflowError, ZeroDivisionError):
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            values = ", ".join(f"{name}={check.one_line(value)}" for name, value in given.items())
            raise ValueError(
                f"{function.__name__} is beyond the range of float64 for {values}: pass less "
                "extreme values."
            ) from None

    return checked


@_in_range
def beta_d(d: int) -> float:
    r"""Return the factor of the bounds that depends on the dimension only.

    .. math::

        \beta_d = \left(d^{-d/(d+1)} + d^{1/(d+1)}\right) 2^{(6d+1)/(d+1)}
        \left(\frac{d}{d+1}\right)^{d/(d+1)}

    It tends to 64 and is largest at ``d = 86``.

    Examples
    --------
    >>> round(beta_d(86), 2)
    64.74
    """
    d = check.check_count(d, "d")
    power = d / (d + 1)
    return (d**-power + d ** (1 / (d + 1))) * 2 ** ((6 * d + 1) / (d + 1)) * (d / (d + 1)) ** power


@_in_range
def sup_error_probability(
    epsilon: float,
    n_components: int,
    d: int,
    *,
    diameter: float,
    sigma_p: float = 1.0,
    kappa: float = 1.0,
    mu: float = 1.0,
    M: float = 0.5,
) -> float:
    r"""Bound the probability that the kernel error reaches ``epsilon`` anywhere (Proposition 3.1).

    .. math::

        P\left(\sup_{x, y} |\hat k - k| \ge \varepsilon\right) \le \beta_d
        \left(\frac{\sigma_p l \kappa \mu}{\varepsilon}\right)^{2d/(d+1)}
        \exp\left(-\frac{D \varepsilon^2}{8 M^2 (d+1)}\right)

    Parameters
    ----------
    epsilon : float
        The error of the kernel.
    n_components : int
        The number of features ``D``.
    d : int
        The input dimension.
    diameter : float
        The diameter ``l`` of the data.
    sigma_p, kappa, mu, M : float
        See the docstring of this module. The defaults are the paper's values for the Gaussian
        kernel.

    Returns
    -------
    float
        The bound. It may exceed 1 and is then vacuous.

    Notes
    -----
    Errors in the paper: the proof applies Hoeffding's inequality to ``d (1 - f) / rho^2``, but
    ``M`` bounds ``(1 - f) / rho^2`` without the factor ``d``. Also, ``M = 1/2`` for the Gaussian
    kernel requires ``|x - y| <= 1`` in scaled inputs, since
    ``1 - cos(rho z.(x - y)) <= rho^2 |x - y|^2 / 2``. In general, ``M = l^2 / 2``.

    Examples
    --------
    >>> sup_error_probability(0.1, 10_000, 4, diameter=1.0) < 0.1
    True
    """
    return _exp(
        _log_factor(epsilon, d, diameter=diameter, sigma_p=sigma_p, kappa=kappa, mu=mu)
        - _rate(epsilon, d, 8 * check.check_positive(M, "M") ** 2)
        * check.check_count(n_components, "n_components")
    )


@_in_range
def n_components_for_sup_error(
    epsilon: float,
    delta: float,
    d: int,
    *,
    diameter: float,
    sigma_p: float = 1.0,
    kappa: float = 1.0,
    mu: float = 1.0,
    M: float = 0.5,
) -> int:
    r"""Return the smallest ``D`` for which :func:`sup_error_probability` is at most ``delta``.

    .. math::

        D \ge \frac{8 M^2 (d+1)}{\varepsilon^2} \left[\frac{2}{1 + 1/d}
        \log\frac{\sigma_p l \kappa \mu}{\varepsilon} + \log\frac{\beta_d}{\delta}\right]

    ``delta`` is the probability of failure, above 0 and below 1. For the other parameters and the
    errors in the proof, see :func:`sup_error_probability`.

    Examples
    --------
    >>> n_components_for_sup_error(0.1, 0.05, 4, diameter=1.0)
    10468
    """
    log_factor = _log_factor(epsilon, d, diameter=diameter, sigma_p=sigma_p, kappa=kappa, mu=mu)
    rate = _rate(epsilon, d, 8 * check.check_positive(M, "M") ** 2)
    return _smallest((log_factor - math.log(_probability(delta))) / rate)


@_in_range
def rff_sup_error_probability(
    epsilon: float,
    n_components: int,
    d: int,
    *,
    diameter: float,
    sigma_p: float = 1.0,
    alpha: float = 1.0,
) -> float:
    r"""Return the paper's bound for random Fourier features, for comparison (appendix A).

    .. math::

        \left(d^{-d/(d+1)} + d^{1/(d+1)}\right) 2^{(5d+1)/(d+1)} 3^{d/(d+1)}
        \left(\frac{\sigma_p l}{\varepsilon}\right)^{2d/(d+1)}
        \exp\left(-\frac{D \varepsilon^2}{32 (d+1) \alpha'_\varepsilon}\right)

    Parameters
    ----------
    epsilon, n_components, d, diameter, sigma_p
        As for :func:`sup_error_probability`.
    alpha : float, default=1.0
        The variance factor of Sutherland and Schneider, at most 1.

    Notes
    -----
    Error in the paper: the number of features in the main text
    (:func:`rff_n_components_for_sup_error`) solves this bound for ``alpha = 1/4``, not 1.

    Examples
    --------
    >>> rff_sup_error_probability(0.1, 200_000, 4, diameter=1.0) < 0.1
    True
    """
    if check.check_positive(alpha, "alpha") > 1:
        raise ValueError(f"alpha={alpha!r} is not valid: pass a number above 0 and at most 1.")
    return _exp(
        _rff_log_factor(epsilon, d, diameter=diameter, sigma_p=sigma_p)
        - _rate(epsilon, d, 32 * alpha) * check.check_count(n_components, "n_components")
    )


@_in_range
def rff_n_components_for_sup_error(
    epsilon: float, delta: float, d: int, *, diameter: float, sigma_p: float = 1.0
) -> int:
    r"""Return the paper's number of random Fourier features, for comparison.

    .. math::

        D \ge \frac{8 (d+1)}{\varepsilon^2} \left[\frac{2}{1 + 1/d}
        \log\frac{\sigma_p l}{\varepsilon} + \log\frac{\beta_d}{\delta}
        + \frac{d}{d+1} \log\frac{3d+3}{2d}\right]

    The parameters are those of :func:`n_components_for_sup_error`.

    Examples
    --------
    >>> rff_n_components_for_sup_error(0.1, 0.05, 4, diameter=1.0)
    43882
    """
    log_factor = _rff_log_factor(epsilon, d, diameter=diameter, sigma_p=sigma_p)
    return _smallest((log_factor - math.log(_probability(delta))) / _rate(epsilon, d, 8))


@_in_range
def ridge_error(epsilon: float, *, alpha: float, target_deviation: float = 1.0) -> float:
    r"""Bound how much a kernel approximation changes a ridge prediction.

    .. math:: |\hat h(x) - h(x)| \le \frac{\lambda_0 + 1}{\lambda_0^2}\, \sigma_y\, \varepsilon

    The kernel is at most 1, and its error is at most ``epsilon`` everywhere.

    Parameters
    ----------
    epsilon : float
        Largest error of the kernel.
    alpha : float
        Regularization per row, ``lambda_0 = lambda / n``.
    target_deviation : float, default=1.0
        Standard deviation ``sigma_y`` of the centered targets.

    Examples
    --------
    >>> ridge_error(0.01, alpha=1.0)
    0.02
    """
    return (
        _ridge_factor(alpha)
        * check.check_positive(target_deviation, "target_deviation")
        * check.check_positive(epsilon, "epsilon")
    )


@_in_range
def n_components_for_ridge_error(
    epsilon: float,
    delta: float,
    d: int,
    *,
    diameter: float,
    alpha: float,
    target_deviation: float = 1.0,
    sigma_p: float = 1.0,
    kappa: float = 1.0,
    mu: float = 1.0,
    M: float = 0.5,
) -> int:
    r"""Return the ``D`` that limits the change of ridge predictions to ``epsilon``.

    .. math::

        D \ge 8 M^2 (d+1) \sigma_y^2 \left(\frac{\lambda_0 + 1}{\lambda_0^2 \varepsilon}\right)^2
        \left[\frac{2}{1 + 1/d} \log\frac{\sigma_y \sigma_p l \kappa \mu (\lambda_0 + 1)}
        {\lambda_0^2 \varepsilon} + \log\frac{\beta_d}{\delta}\right]

    Here ``epsilon`` is the change of a prediction. The function inverts :func:`ridge_error` to get
    the largest kernel error, then calls :func:`n_components_for_sup_error`. See these two for the
    parameters and the errors in the proof.

    Examples
    --------
    >>> n_components_for_ridge_error(0.2, 0.05, 4, diameter=1.0, alpha=1.0)
    10468
    """
    kernel_error = check.check_positive(epsilon, "epsilon") / ridge_error(
        1.0, alpha=alpha, target_deviation=target_deviation
    )
    return n_components_for_sup_error(
        kernel_error, delta, d, diameter=diameter, sigma_p=sigma_p, kappa=kappa, mu=mu, M=M
    )


@_in_range
def variance(n_rules: int, d: int, *, kappa: float = 1.0) -> float:
    r"""Bound the variance of the mean of ``n`` SR(3,3) rules (appendix A.1).

    .. math:: \frac{2 + \kappa^4 + \kappa^2}{n (d - 2)}

    Parameters
    ----------
    n_rules : int
        The number ``n`` of rules, each with ``d + 1`` directions.
    d : int
        The input dimension, at least 3.
    kappa : float, default=1.0
        Upper bound of :math:`|\phi|`.

    Notes
    -----
    Error in the paper: the covariance enters the variance twice, but the proof counts it once. The
    last term should be :math:`2 \kappa^2`.

    Examples
    --------
    >>> variance(4, 3)
    1.0
    """
    d = check.check_count(d, "d", minimum=3)
    kappa = check.check_positive(kappa, "kappa")
    return (2 + kappa**4 + kappa**2) / (check.check_count(n_rules, "n_rules") * (d - 2))


def _log_factor(
    epsilon: float, d: int, *, diameter: float, sigma_p: float, kappa: float, mu: float
) -> float:
    """Return the logarithm of the factor in front of the exponential."""
    logarithm = (
        math.log(check.check_positive(sigma_p, "sigma_p"))
        + math.log(check.check_positive(diameter, "diameter"))
        + math.log(check.check_positive(kappa, "kappa"))
        + math.log(check.check_positive(mu, "mu"))
        - math.log(check.check_positive(epsilon, "epsilon"))
    )
    return math.log(beta_d(d)) + 2 * d / (d + 1) * logarithm


def _rff_log_factor(epsilon: float, d: int, *, diameter: float, sigma_p: float) -> float:
    factor = _log_factor(epsilon, d, diameter=diameter, sigma_p=sigma_p, kappa=1.0, mu=1.0)
    return factor + d / (d + 1) * math.log((3 * d + 3) / (2 * d))


def _rate(epsilon: float, d: int, constant: float) -> float:
    """Return how much each feature lowers the logarithm of a bound."""
    rate = check.check_positive(epsilon, "epsilon") ** 2 / (constant * (d + 1))
    if rate == 0:
        raise ValueError(f"epsilon={epsilon!r} is not valid: pass a number whose square is not 0.")
    return rate


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 700 else math.inf


def _ridge_factor(alpha: float) -> float:
    alpha = check.check_positive(alpha, "alpha")
    return (alpha + 1) / alpha**2


def _probability(delta: float) -> float:
    if not 0 < check.check_positive(delta, "delta") < 1:
        raise ValueError(f"delta={delta!r} is not valid: pass a probability above 0 and below 1.")
    return float(delta)


def _smallest(bound: float) -> int:
    return max(1, math.ceil(bound))

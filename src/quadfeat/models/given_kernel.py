"""The kernel that the parameters ``kernel`` and ``gamma`` of an estimator describe."""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat.kernels import Kernel, as_kernel
from quadfeat.kernels.presets import NAMED

AUTO = "auto"
DEFAULT_FAMILY = "gaussian"

# The kernel to suggest for a parameter, if the model has kernel="auto".
FAMILY_WITH = {"alpha": "rational-quadratic", "length_scale": "matern52", "nu": "matern52"}


def is_auto(kernel: Any) -> bool:
    """Return whether a kernel parameter is ``"auto"``."""
    return isinstance(kernel, str) and kernel == AUTO


def finds_kernel(model: Any) -> bool:
    """Return whether a model has to find its kernel. ``gamma`` selects the Gaussian kernel."""
    return is_auto(model.kernel) and model.gamma is None


def given_kernel(estimator: Any) -> Kernel:
    """Return the kernel of an estimator that does not have to find one.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> given_kernel(QuadratureFeatures(gamma=0.1))
    Gaussian(gamma=0.1)
    """
    gamma = estimator.gamma
    if gamma is None:
        return _named(estimator)
    if isinstance(estimator.kernel, str):
        kernel = _named(estimator)
        if kernel.scale_parameter == "gamma":
            return kernel.set_params(gamma=gamma)
        instead = kernel.set_params(**{kernel.scale_parameter: 1.0})
        raise ValueError(
            f"gamma={gamma!r} does not apply to kernel={estimator.kernel!r}, which has a "
            f"{kernel.scale_parameter}. Use kernel={instead!r} with your {kernel.scale_parameter}."
        )
    raise ValueError(
        f"gamma={gamma!r} cannot be combined with kernel={check.one_line(estimator.kernel)}. Set "
        "gamma in the kernel, such as kernel=Gaussian(gamma=0.1), or pass gamma alone."
    )


def _named(estimator: Any) -> Kernel:
    """Return the kernel for the parameter ``kernel``."""
    kernel = estimator.kernel
    if estimator.allows_auto_kernel:
        if is_auto(kernel):
            return as_kernel(DEFAULT_FAMILY)
        if isinstance(kernel, str):
            check.check_choice(kernel, "kernel", (AUTO, *NAMED))
    elif is_auto(kernel):
        raise ValueError(
            f"kernel='auto' needs targets, which {type(estimator).__name__} does not have. Use "
            "QuadratureRidge or QuadratureRidgeClassifier, or choose one of "
            f"{', '.join(map(repr, NAMED))}."
        )
    return as_kernel(kernel)


def with_parameters(estimator: Any, name: str, parameters: dict[str, Any]) -> Kernel:
    """Return the kernel of a name with other parameters, those of ``kernel__...``.

    Parameters
    ----------
    estimator : object
        For error messages.
    name : str
        The name of the kernel.
    parameters : dict
        Such as ``{"gamma": 0.1}``.
    """
    if is_auto(name) and estimator.allows_auto_kernel:
        first, value = next(iter(parameters.items()))
        raise ValueError(
            f"kernel__{first}={check.one_line(value)} has no effect, because kernel='auto' finds "
            f"its own kernel. Set kernel={FAMILY_WITH.get(first, DEFAULT_FAMILY)!r} as well."
        )
    return as_kernel(name).set_params(**parameters)

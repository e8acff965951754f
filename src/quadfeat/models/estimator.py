"""The base class of all estimators: parameters of named kernels, and the notebook view."""

from __future__ import annotations

from typing import Any, TypeVar

from quadfeat.io.pickles import VersionedState
from quadfeat.models import notebook
from quadfeat.models.given_kernel import with_parameters

Self = TypeVar("Self", bound="KernelEstimator")

KERNEL_PREFIX = "kernel__"


class KernelEstimator(VersionedState):
    """Base class of estimators with a parameter ``kernel``.

    Attributes
    ----------
    allows_auto_kernel : bool
        Whether ``kernel="auto"`` is valid.
    """

    kernel: Any
    gamma: Any
    allows_auto_kernel = False

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters of this estimator.

        Parameters
        ----------
        **params : dict
            As in scikit-learn. ``kernel__gamma`` and other parameters of the kernel also work if
            ``kernel`` is a name: the name is replaced by a kernel object.

        Returns
        -------
        object
            This estimator.
        """
        kernel = params.get("kernel", self.kernel)
        nested = {
            name.removeprefix(KERNEL_PREFIX): value
            for name, value in params.items()
            if name.startswith(KERNEL_PREFIX)
        }
        if nested and isinstance(kernel, str):
            others = {name: params[name] for name in params if not name.startswith(KERNEL_PREFIX)}
            params = others | {"kernel": with_parameters(self, kernel, nested)}
        super().set_params(**params)
        return self

    # scikit-learn's diagram in notebooks, with a table of fitted values.

    def _repr_html_inner(self) -> str:
        return notebook.with_table(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = notebook.with_table(self, bundle["text/html"])
        return bundle

    def _get_fitted_attr_html(self, doc_link: str = "") -> notebook.Values:
        # Newer versions of scikit-learn would compute all properties here.
        return notebook.values(self)

"""The base class of all estimators: parameters of named kernels, and the notebook view."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import validate_data
from quadfeat.io.pickles import VersionedState
from quadfeat.models import notebook
from quadfeat.models.given_kernel import with_parameters

Self = TypeVar("Self", bound="KernelEstimator")

KERNEL_PREFIX = "kernel__"

# Dtypes in the byte order of the machine.
NATIVE_FLOATS = tuple(map(np.dtype, check.FLOAT_DTYPES))


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

    # Rows of a fitted estimator. scikit-learn's validation takes several times as long as the
    # features of a few rows, so it is skipped for arrays that need none.

    def _check_fitted(self) -> None:
        """Raise an error if this estimator is not fitted."""
        if self.needed_attributes[0] not in vars(self):
            check_is_fitted(self)

    def _validated(self, X: Any) -> Any:
        """Validate the columns of ``X``. The map checks later that entries are finite."""
        self._check_fitted()
        if self._is_as_fitted(X):
            return X
        X = validate_data(
            self,
            to_numpy(X, "X"),
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
            reset=False,
        )
        return check.without_duplicates(X)

    def _is_as_fitted(self, X: Any) -> bool:
        """Return whether ``X`` needs no validation by scikit-learn."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in NATIVE_FLOATS
            and X.shape[0] > 0
            and X.shape[1] == vars(self).get("n_features_in_")
            and "feature_names_in_" not in vars(self)
        )

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

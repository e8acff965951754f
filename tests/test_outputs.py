"""Test that seeded results equal the stored ones, to the bit on the machine that stored them."""

import json

import numpy as np
import pytest

from fixtures import outputs

KEPT = json.loads(outputs.PATH.read_text())


def compare(found, wanted):
    """Compare digests of outputs."""
    assert list(found) == list(wanted)
    same_machine = outputs.machine() == KEPT["machine"]
    for name, digest in found.items():
        if same_machine:
            assert digest["bits"] == wanted[name]["bits"], name
        elif not name.endswith("| map"):  # a hash does not allow for rounding
            tolerance = 1e-3 if "float32" in name or "Quadrature" in name else 1e-6
            np.testing.assert_allclose(
                digest["projections"],
                wanted[name]["projections"],
                rtol=0,
                atol=tolerance,
                err_msg=name,
            )


@pytest.mark.parametrize("rule", outputs.RULES)
def test_features_equal_the_stored_ones(rule):
    wanted = {name: kept for name, kept in KEPT["outputs"].items() if name.startswith(f"{rule} | ")}
    compare(outputs.digests(outputs.feature_outputs([rule])), wanted)


@pytest.mark.parametrize("model", outputs.MODELS)
def test_predictions_equal_the_stored_ones(model):
    wanted = {
        name: kept
        for name, kept in KEPT["outputs"].items()
        if name.startswith("Quadrature") and name.split(" | ")[1] == model
    }
    compare(outputs.digests(outputs.model_outputs([model])), wanted)

"""Test that the tutorial notebook runs, prints its stored output and shows a figure."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_prints_what_it_shows():
    command = [sys.executable, str(ROOT / "scripts" / "tutorial.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_stored_outputs_have_a_figure_and_no_errors_or_warnings():
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)

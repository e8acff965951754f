"""The README's example, run as it stands, prints what the README says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_the_readme_says():
    text = README.read_text(encoding="utf-8")
    (example, stated) = re.search(r"```python\n(.*?)```\n\nprints `(.*?)`", text, re.S).groups()
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == stated

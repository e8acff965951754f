"""Apply the gallery's matplotlib style, so that the example scripts need not."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

STYLE = Path(__file__).parents[2] / "examples" / "quadfeat.mplstyle"


def apply(gallery_conf: dict[str, Any], example: str) -> None:
    """Set the style before an example runs."""
    plt.style.use(STYLE)

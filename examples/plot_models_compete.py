r"""
Which kind of model, and which columns?
=======================================

``KernelRegressor`` compares kernel models of two kinds on held-out rows: ridge regression on
quadrature features, and Gaussian processes on the nearest rows. It also shows how fast predictions
bend along each column. Two tables with the same columns show why both kinds are needed.
"""

# %%
# The first target is smooth. The second one also oscillates along the distance, in waves that are
# much shorter than the range of the column. A kernel for it has to be narrow.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from quadfeat import KernelRegressor, plots

rng = np.random.default_rng(0)
n = 1500
table = pd.DataFrame(
    {
        "distance": rng.uniform(0, 60, n),
        "speed": rng.uniform(20, 90, n),
        "weather": rng.choice(["dry", "rain", "snow"], n),
        "unrelated": rng.standard_normal(n),
    }
)
factors = table["weather"].map({"dry": 1.0, "rain": 1.2, "snow": 1.6})
smooth = 2 * np.cos(table["distance"] / 10) * factors + np.sin(table["speed"] / 15)
targets = {"smooth": smooth, "with short waves": smooth + 2 * np.sin(2 * table["distance"])}
noise = 0.2 * rng.standard_normal(n)

# %%
# There is nothing to set, and ``fit`` takes the data frame as it is. ``plots.leaderboard`` draws
# the losses with their standard errors, and ``plots.relevance`` the relevance of the columns.
# ``model.plot()`` draws both.

figure, axes = plt.subplots(2, 2, figsize=(9.5, 5.6), layout="constrained")
for row, (name, target) in zip(axes, targets.items(), strict=True):
    model = KernelRegressor().fit(table[:1000], (target + noise)[:1000])
    plots.leaderboard(model, ax=row[0])
    plots.relevance(model, ax=row[1])
    row[0].set_title(f"target: {name}")
    print(f"{name}: R2 {model.score(table[1000:], (target + noise)[1000:]):.3f} on new rows")
    print(model.leaderboard_, end="\n\n")
plt.show()

# %%
# Short bars on the left are better. On the right, a long bar means that predictions can change fast
# along a column. The waves make the distance by far the most relevant column.

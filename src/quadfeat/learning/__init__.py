"""Learn the kernel of a model from its rows: lengthscales, full metrics, kernel families."""

"""Gaussian processes on the nearest rows: neighbors, likelihoods, and learned kernels."""

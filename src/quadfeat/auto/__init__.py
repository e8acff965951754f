"""Choices that the library makes for given data."""

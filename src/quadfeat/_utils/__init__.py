"""Helpers that every folder uses: validation, seeds, snapshots and lazy attributes."""

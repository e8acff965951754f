"""Programs for a terminal."""

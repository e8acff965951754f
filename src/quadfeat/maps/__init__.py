"""How rows become columns."""

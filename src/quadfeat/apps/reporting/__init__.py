"""What the commands have in common: the terminal, figures, pages, files and how they fail."""

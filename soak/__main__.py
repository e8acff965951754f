"""Entry point of ``python -m soak``."""

from soak.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

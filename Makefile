# Every target sets up what it needs: the first one on a fresh machine creates .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help study test lint types format bias clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A stamp file a set of extras: pip runs again only when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(INSTALL) .
	@touch $@

$(VENV)/.installed-test: $(BIN)/python pyproject.toml
	$(INSTALL) '.[test]'
	@touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml
	$(INSTALL) '.[dev]'
	@touch $@

study: $(VENV)/.installed ## compare all maps on scikit-learn's digits (under a minute)
	$(BIN)/python benchmarks/digits.py

test: $(VENV)/.installed-test ## run every test and docstring example
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(VENV)/.installed-dev ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## check types
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## put the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bias: $(VENV)/.installed ## measure the biases that the docstrings quote
	$(BIN)/python benchmarks/bias.py

clean: ## remove everything that was made here
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Every target installs what it needs into .venv, and creates it first on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Python keeps compiled modules in .venv, even if a variable turns this off elsewhere. The tests start
# many processes, and compiling all imports takes each of them seconds.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.DEFAULT_GOAL := help
.PHONY: help install study digits test test-full coverage docs picture sanitize sanitize-threads fuzz soak dist compat lint contract types format bench learning accuracy limits bias clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp file for each set of extras: pip runs again only after a change of its inputs.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Imports compile what they need, so pip need not compile all modules: that takes half of the time.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable

NATIVE := CMakeLists.txt $(wildcard native/*)

$(VENV)/.installed: $(BIN)/python pyproject.toml $(NATIVE)
	$(INSTALL) .
	@touch $@

$(VENV)/.installed-study: $(BIN)/python pyproject.toml $(NATIVE)
	$(INSTALL) '.[study]'
	@touch $@

$(VENV)/.installed-test: $(BIN)/python pyproject.toml $(NATIVE)
	$(INSTALL) '.[test]'
	@touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml $(NATIVE)
	$(INSTALL) '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml $(NATIVE)
	$(INSTALL) '.[docs]'
	@touch $@

install: $(BIN)/python ## install everything that the other targets need, with one build of the core
	$(INSTALL) '.[dev,docs]'
	@touch $(VENV)/.installed $(addprefix $(VENV)/.installed-,study test dev docs)

study: $(VENV)/.installed-study ## rerun the paper's experiments, quickly, and write study/report.html
	$(BIN)/quadfeat study all --quick --out study

digits: $(VENV)/.installed ## compare all maps on scikit-learn's digits (under a minute)
	$(BIN)/python benchmarks/digits.py

# The tests run in one process per core, so matrix products need no threads of their own.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: $(VENV)/.installed-test ## run the tests and docstring examples, and list the ten slowest
	$(PYTEST) -m 'not slow' --durations=10

test-full: $(VENV)/.installed-test ## also run slow tests: more seeds, sizes and configurations
	$(PYTEST) --durations=10

coverage: $(VENV)/.installed-dev ## run every test and list the lines that no test covers
	$(PYTEST) --cov --cov-report=term

# Small matrices are slow with several threads that wait for each other, most of all if other steps
# of .ci/run use the cores.
docs: $(VENV)/.installed-docs ## run the examples, write the documentation to build/docs/index.html and check it
	$(BIN)/python benchmarks/study_figures.py > /dev/null
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going --quiet docs build/docs
	$(BIN)/python scripts/accessibility.py build/docs

# With MEASURED=docs/measured, these two write the tables of the documentation.
MEASURED ?= build/measured
bench: $(VENV)/.installed ## time the map against scikit-learn and NumPy (a few minutes)
	$(BIN)/python benchmarks/transform.py --out $(MEASURED)
	$(BIN)/python benchmarks/operations.py --out $(MEASURED)

limits: $(VENV)/.installed ## measure where other methods are better (two minutes)
	$(BIN)/python benchmarks/when_not.py --out $(MEASURED)

learning: $(VENV)/.installed ## compare models with scikit-learn's, on QUADFEAT_DATA if it is set
	$(BIN)/python benchmarks/learning.py

# ACCURACY passes options, such as `--contestants ours --seeds 10`.
accuracy: $(VENV)/.installed ## score models with no settings beside their rivals on QUADFEAT_DATA (hours)
	$(BIN)/python benchmarks/accuracy.py --out $(MEASURED) $(ACCURACY)

# Builds the native core with checks of memory and undefined behavior, in a separate venv.
SANITIZED := .venv-sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -g
sanitize: ## run the tests of the native core under AddressSanitizer and UBSan
	test -x $(SANITIZED)/bin/python || $(PYTHON) -m venv $(SANITIZED)
	CXXFLAGS='$(SANITIZERS)' LDFLAGS='$(SANITIZERS)' $(SANITIZED)/bin/python -m pip install \
	  --quiet --disable-pip-version-check --config-settings=build-dir=build/sanitized '.[test]'
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so):$$(gcc -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(SANITIZED)/bin/python -m pytest tests/test_native.py tests/test_native_neighbors.py tests/test_products.py tests/test_features.py tests/test_pool.py -p no:cacheprovider

sanitize-threads: ## stress the pool of threads under ThreadSanitizer
	mkdir -p build
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -fsanitize=thread -pthread -Inative fuzz/pool.cpp native/pool.cpp -o build/pool
	TSAN_OPTIONS=halt_on_error=1 build/pool

# The same, instrumented for libFuzzer. This needs Clang and a Python with wheels of atheris (3.11
# to 3.13). The corpus is kept in build/corpus.
FUZZED := .venv-fuzzed
FUZZ_SECONDS ?= 600
FUZZERS := -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=vptr,function \
  -fno-sanitize-recover=undefined -g
fuzz: ## fuzz the native bindings for FUZZ_SECONDS (600) under both sanitizers
	@command -v clang++ > /dev/null || { echo "make fuzz needs clang++: install Clang" >&2; exit 1; }
	test -x $(FUZZED)/bin/python || $(PYTHON) -m venv $(FUZZED)
	$(FUZZED)/bin/python -m pip install --quiet --disable-pip-version-check 'atheris>=2.3'
	CXX=clang++ CXXFLAGS='$(FUZZERS)' LDFLAGS='$(FUZZERS)' $(FUZZED)/bin/python -m pip install \
	  --quiet --disable-pip-version-check --config-settings=build-dir=build/fuzzed .
	mkdir -p build/corpus
	LD_PRELOAD="$$($(FUZZED)/bin/python -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 OPENBLAS_NUM_THREADS=1 \
	  $(FUZZED)/bin/python fuzz/native.py build/corpus -artifact_prefix=build/ \
	  -max_len=256 -len_control=0 -timeout=120 -max_total_time=$(FUZZ_SECONDS)

SOAK_SECONDS ?= 600
soak: $(VENV)/.installed-test ## stress threads, kills, files and clusters for SOAK_SECONDS (600)
	$(BIN)/python -m soak --seconds $(SOAK_SECONDS)

dist: $(VENV)/.installed-dev ## build sdist and wheel, and test the wheel in an empty environment
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/dist.py

compat: $(VENV)/.installed-dev ## test the oldest and newest Python and requirements (long)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/compat.py

lint: $(VENV)/.installed-dev ## check style, and the configuration files of GitHub
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

contract: $(VENV)/.installed-dev ## check the order of imports between folders
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev ## check types
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## fix style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

picture: $(VENV)/.installed-study ## redraw the figure of the README from docs/measured
	$(BIN)/python benchmarks/picture.py

bias: $(VENV)/.installed ## measure the biases that the docstrings quote
	$(BIN)/python benchmarks/bias.py

clean: ## remove everything that these targets create
	rm -rf $(VENV) $(SANITIZED) $(FUZZED) .venv-compat build dist study compare .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/gallery docs/api/generated docs/api/examples docs/_static/study-*.svg

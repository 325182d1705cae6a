# Every target does its own set-up: a fresh Debian machine with Python 3.11 is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types imports docs docs-check test-quick bench wheel clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

$(READY): pyproject.toml deploy/ensure-tools.sh
	@sh deploy/ensure-tools.sh "$(PYTHON)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

setup: $(READY)  ## Make the virtual environment with everything in it

demo: $(READY)  ## Start a server and a runner, submit four packages, show the board
	@$(BIN)/python -m tests.e2e.demo

test: $(READY)  ## All tests, end-to-end ones too, with the coverage gates
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal \
	  --cov --cov-report= $(PYTEST_ARGS)
	$(BIN)/python -m coverage report --include 'kzoo_core/*' --fail-under 90 --format total \
	  | sed 's/^/coverage of kzoo_core, per cent: /'
	$(BIN)/python -m coverage report --fail-under 85

test-quick: $(READY)  ## Tests without the end-to-end ones, without coverage
	$(BIN)/python -m pytest --numprocesses 2 -m 'not e2e' $(PYTEST_ARGS)

lint: $(READY) types imports  ## ruff, mypy --strict, import laws, dependency lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deptry kzoo_core kzoo_server kzoo_tui

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

docs: $(READY)  ## Write the generated parts of the documentation
	$(BIN)/python docs/generate.py

docs-check: $(READY)  ## Fail when the generated parts have drifted
	$(BIN)/python docs/generate.py --check

bench: $(READY)  ## Measure against docs/benchmarks.md (BENCH_FULL=1: 10,000 packages throughout)
	@$(BIN)/python -m tests.bench

wheel: $(READY)  ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean:  ## Remove what the other targets made
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .demo

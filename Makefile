# Two commands a newcomer needs: `make demo` and `make test`. Each makes what it needs in .venv.
# `make demo` installs a third-party training program, runs it unmodified, and ends with its rates.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An unpinned torch pulls gigabytes of CUDA packages; the CPU build of this one is enough to test with.
# pip takes the build that its index offers: PIP_EXTRA_INDEX_URL can name an index of CPU builds.
TORCH := torch==2.13.0

.PHONY: demo test lint types check bench clean

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

$(VENV)/base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --editable .
	touch $@

$(VENV)/torch: $(VENV)/base
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/test: $(VENV)/torch
	$(PIP) install --editable ".[test,lint,libraries]"
	touch $@

# Installed and prepared once: a second time takes as long as the program.
demo: $(VENV)/base
	$(BIN)/python -m benchmarks.pack run --environment $(VENV) stanza-charlm

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# What probing costs, beside its peers: the tables of docs/benchmarks.md.
bench: $(VENV)/torch
	$(BIN)/python -m benchmarks.overhead

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

check: test lint types

clean:
	rm -rf $(VENV) .inject .mypy_cache .ruff_cache .pytest_cache .hypothesis

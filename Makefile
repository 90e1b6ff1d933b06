# Two commands a newcomer needs: `make demo` and `make test`. Each makes what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An unpinned torch pulls gigabytes of CUDA packages; the CPU build of this one is enough to test with.
TORCH := torch==2.13.0

.PHONY: demo test lint types check bench clean

$(VENV)/base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/test: $(VENV)/base
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	touch $@

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

check: test lint types

clean:
	rm -rf $(VENV) .inject .mypy_cache .ruff_cache .pytest_cache .hypothesis

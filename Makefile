# Two commands a newcomer needs: `make demo` and `make test`. Each makes what it needs in .venv.
# `make demo` installs a third-party training program, runs it unmodified, and ends with its rates.

# Another Python: make test PYTHON=python3.14 VENV=.venv-3.14

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An unpinned torch pulls gigabytes of CUDA packages; the CPU build of this one is enough to test with.
# pip takes the build that its index offers: PIP_EXTRA_INDEX_URL can name an index of CPU builds.
TORCH := torch==2.13.0

.PHONY: demo test test-all test-gpu browser cluster lint types check bench valgrind guard bench-guard clean

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

$(VENV)/base: pyproject.toml hatch_build.py $(wildcard injector/probe/native/*)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --editable ".[suite]"
# An image may tell Python to write no bytecode (PYTHONDONTWRITEBYTECODE), and pip writes none for a checkout.
	$(BIN)/python -m compileall -q injector voirfiles
	touch $@

$(VENV)/torch: $(VENV)/base
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/test: $(VENV)/torch
	$(PIP) install --editable ".[test,lint,libraries]"
# For its axe-core, which tests pages; of the Playwright that it asks for there is no use.
	$(PIP) install --no-deps "axe-playwright-python==0.1.8"
	touch $@

# Installed and prepared once: a second time takes as long as the program.
DEMO := --select stanza-charlm --base .inject/suite
demo: $(VENV)/base
	$(BIN)/inject suite install smoke $(DEMO)
	$(BIN)/inject suite prepare smoke $(DEMO)
	$(BIN)/inject suite run smoke $(DEMO) --devices cpu:1 --name demo --override stanza-charlm.voir.options.stop=200
	$(BIN)/inject report "$$(ls -td .inject/suite/runs/demo.*/jobs/* | head -n 1)"

# Many tests wait for what they start: three processes used two cores for half of the time only.
test: $(VENV)/test browser
	$(BIN)/python -m pytest -n 5 --dist loadgroup

# And what only a release needs: thousands of generated programs, selectors and damaged run folders.
test-all: $(VENV)/test browser
	$(BIN)/python -m pytest -n 5 --dist loadgroup -m "not gpu"

# What only a GPU can show; elsewhere each of these tests is skipped.
test-gpu: $(VENV)/test
	$(BIN)/python -m pytest -m gpu

# Pages are tested in a real browser. It comes from the system's packages, so it
# is installed for root on Debian and its like only; elsewhere the test says what is missing.
browser:
	@for name in chromium chromium-browser google-chrome-stable google-chrome; do \
	    command -v $$name >/dev/null && exit; done; \
	test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet=2 && \
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium || \
	echo "no browser, and none can be installed here: the test of the local page will fail" >&2

# Slurm's daemons, of which tests start a cluster, rsync, Open MPI and MPICH. Daemons are nothing that testing
# should install by itself; without them these tests are skipped.
cluster:
	@export PATH="$$PATH:/usr/sbin"; missing=; \
	for name in munged slurmctld slurmd srun rsync mpirun.openmpi mpirun.mpich; do command -v $$name >/dev/null || missing=yes; done; \
	test -z "$$missing" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes \
	    --no-install-recommends slurmd slurmctld slurm-client munge rsync openmpi-bin mpich; } || \
	echo "no Slurm, and none can be installed here: tests of clusters will be skipped" >&2

# What probing costs, beside its peers: the tables of docs/benchmarks.md.
bench: $(VENV)/torch
	$(BIN)/python -m benchmarks.overhead

# What counts instructions. It comes from the system's packages, as the browser does.
valgrind:
	@command -v valgrind >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get update --quiet=2 && \
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends valgrind; } || \
	{ echo "valgrind is not installed, and cannot be installed here: install its package" >&2; exit 2; }

# Whether this commit costs more than its parent: by instructions, which no neighbour disturbs.
guard: $(VENV)/base valgrind
	$(BIN)/python -m benchmarks.guard

# The same on the clock too, which needs a machine with nothing else to do.
bench-guard: guard
	$(BIN)/python -m benchmarks.guard --time

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

check: test lint types

clean:
	rm -rf $(VENV) .inject .mypy_cache .ruff_cache .pytest_cache .hypothesis

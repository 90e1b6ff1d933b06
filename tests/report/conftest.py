import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

# Helpers beside the tests; pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))  # what all of tests/ share

AXE = "axe-playwright-python"
"""The package that axe-core comes in; nothing else of it is used, and it needs none of what it asks for."""
NO_AXE = f"pages are tested with axe-core, which `make test` installs: pip install --no-deps {AXE}"


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of a worker: those of one group share it."""
    from browser import Browser

    try:
        made = Browser()
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)
    yield made
    made.close()


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core, https://github.com/dequelabs/axe-core."""
    try:
        found = distribution(AXE)
    except PackageNotFoundError:
        pytest.fail(NO_AXE, pytrace=False)
    return Path(str(found.locate_file("axe_playwright_python/axe.min.js"))).read_text()

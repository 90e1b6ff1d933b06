"""Lets the tests of this folder import what they share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))  # what all of tests/ share

import pytest
from suite_runs import Suites


@pytest.fixture
def suites(tmp_path, environ):
    """A folder in which suites are written and run."""
    return Suites(tmp_path, environ)


@pytest.fixture
def cluster(suites, slurm):
    """Suites that have the configuration of a cluster with Slurm, where an array has four tasks at most."""
    suites.environ |= slurm
    return suites

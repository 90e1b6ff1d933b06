"""The version of what a run folder holds."""

from __future__ import annotations

SCHEMA = 1
"""Stands first in ``run.json`` and in each process's raw file; a reader refuses a later one."""

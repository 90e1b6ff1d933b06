"""Exports of runs to other tools: one module for each tool, all with what :mod:`.content` has."""

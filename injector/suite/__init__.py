"""Suites: from one YAML to benchmarks, a plan, runs and a score.

What runs is `inject run` in a process of its own, and what it leaves is a run folder: nothing here
reaches into a program.
"""

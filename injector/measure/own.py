"""Imported when a program uses ``injector.region`` and its like; holds nothing.

A process of ``inject run`` that probes nothing loads no more of this package until it sees this import.
"""

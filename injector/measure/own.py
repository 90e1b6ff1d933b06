"""Imported when a program names regions of its own: a process of ``inject run`` waits for that."""

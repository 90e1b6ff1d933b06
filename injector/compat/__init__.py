"""Readers of the files that other programs write."""

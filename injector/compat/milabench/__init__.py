"""Reads the folders that milabench writes. Nothing of milabench is imported or run."""

from .runs import is_folder, read

__all__ = ["is_folder", "read"]

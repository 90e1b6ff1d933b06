"""milabench's files. Nothing here runs anything of it."""

from .runs import is_folder, read

__all__ = ["is_folder", "read"]

"""What rewritten code calls.

A *point* is one hook: the callable that sits in :mod:`builtins` under a name no program can write,
hands the value of a place to a handler, counts, and never lets a handler's mistake reach the
program. This room knows nothing of selectors, files or run folders.
"""

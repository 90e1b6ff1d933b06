"""The command ``inject``: one module per verb, imported only when that verb is called."""

from __future__ import annotations

import sys

MORE = (
    "inject VERB --help tells more; inject help --params REGEX --text REGEX explains any parameter."
)


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; returns the exit code.

    Unless ``arguments`` are given, a program that died by a signal makes this process die by it.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["run"]:
        from injector.cli.run import main as run

        ended = run(words[1:])
        return ended if arguments is not None else _leave(ended)
    from injector.cli.ending import ended_well

    return ended_well(lambda: _reading(words))


def _reading(words: list[str]) -> int:
    """What runs no program."""
    from injector.cli.verbs import VERBS, listed, unknown

    usage = listed("inject VERB [ARGUMENTS…]", VERBS, MORE)
    verb = words[0] if words else ""
    if not verb:
        print(usage, file=sys.stderr)
        return 2
    if verb == "help" and words[1:] and words[1].startswith("--"):
        from injector.cli.parameters import main as explain

        return explain(words[1:])
    if verb == "help":
        words = [*words[1:], "--help"]
        verb = words[0]
    if verb in ("-h", "--help"):
        print(usage)
        return 0
    if verb in ("-V", "--version"):
        from injector._version import __version__
        from injector.probe.compiled import NATIVE

        print(f"{__version__} ({'compiled' if NATIVE else 'not compiled: probes cost more'})")
        return 0
    if verb not in VERBS:
        from os.path import exists

        why = unknown(verb, VERBS)
        if exists(verb):
            why = f"unknown verb {verb}; did you mean inject run {verb}?"
        print(f"inject: {why}", file=sys.stderr)
        return 2
    from importlib import import_module

    from injector.blas import WithoutThreads

    with WithoutThreads():  # some verbs load NumPy with themselves
        module = import_module(f"injector.cli.{verb}")
    code: int = module.main(words[1:])
    return code


def _leave(code: int) -> int:
    """End here and now: taking the interpreter apart would cost the user 4 ms of every run."""
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # closed, broken or none: Python will say so
        pass
    else:
        os._exit(code)
    return code

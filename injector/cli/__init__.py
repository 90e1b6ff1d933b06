"""The command ``inject``: one module per verb, imported only when that verb is called."""

from __future__ import annotations

import sys

VERBS = {
    "run": "run a program, probed, and report what it did",
    "check": "show where a voirfile's probes would land, without running anything",
    "functions": "list what can be named in a program or module",
    "voirfiles": "list the voirfiles that act by themselves, one per library",
    "report": "print the report of a run that was recorded",
    "runs": "list the runs of a folder",
    "compare": "compare runs or suites: what differs, what is slower, how surely",
    "query": "ask a run in SQL",
    "plot": "plot a figure of runs or suites over another",
    "metrics": "list every metric with its unit and its definition",
    "ingest": "read logs of the Deep Learning Benchmarking Suite as runs",
    "export": "put a run into MLflow, TensorBoard, Perfetto and others",
    "merge": "make one run of runs that the nodes of one job recorded apart",
    "pack": "turn a finished run's spans into Parquet",
    "watch": "watch a run while it is running",
    "new": "write a benchmark of a program, with a voirfile that finds its loop",
    "suite": "install, prepare, run and score many programs, described by one YAML",
}


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
    verb = words[0] if words else ""
    if not verb:
        print(usage(), file=sys.stderr)
        return 2
    if verb == "help" and words[1:] and words[1].startswith("--"):
        from injector.cli.parameters import main as explain

        return explain(words[1:])
    if verb == "help":
        words = [*words[1:], "--help"]
        verb = words[0]
    if verb in ("-h", "--help"):
        print(usage())
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


def usage() -> str:
    """What ``inject --help`` prints."""
    more = "inject VERB --help tells more; inject help --params REGEX --text REGEX explains any parameter."
    return listed("inject VERB [ARGUMENTS…]", VERBS, more)


def listed(how: str, verbs: dict[str, str], more: str) -> str:
    """How a command with ``verbs`` is called, and what each of them does."""
    lines = [f"  {verb:<10} {text}" for verb, text in verbs.items()]
    return "\n".join([f"usage: {how}", "", *lines, "", more])


def unknown(verb: str, verbs: dict[str, str]) -> str:
    """What is wrong with a verb that is none of ``verbs``."""
    from difflib import get_close_matches

    near = get_close_matches(verb, verbs, 1)
    hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(verbs)})"
    return f"unknown verb {verb}{hint}"

"""The command ``inject``: one module per verb, imported only when that verb is called."""

from __future__ import annotations

import sys

MORE = (
    "inject VERB --help tells more; inject help --params REGEX --text REGEX explains any parameter."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the verb that the command line names, and return the exit code.

    ``arguments`` replaces ``sys.argv[1:]``. ``inject run`` does not return if a signal ended its program, and
    not without ``arguments`` either: this process ends there.
    """
    words = sys.argv[1:] if arguments is None else arguments
    _open_streams()
    if words[:1] == ["run"]:
        from injector.cli.run import main as run

        code = run(words[1:])
        return code if arguments is not None else _exit_now(code)
    from injector.cli.ending import call_verb

    return call_verb(lambda: _other_verb(words))


def _open_streams() -> None:
    """Put what writes to nowhere in place of a stream that is closed, as cron and ``2>&-`` leave it."""
    import os

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _other_verb(words: list[str]) -> int:
    """Run a verb other than ``run``, or an option in its place. Returns the exit code."""
    from injector.cli.verbs import VERBS, unknown_verb, usage_of

    usage = usage_of("inject VERB [ARGUMENTS…]", VERBS, MORE)
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

        why = unknown_verb(verb, VERBS)
        if exists(verb):
            why = f"unknown verb {verb}; did you mean inject run {verb}?"
        print(f"inject: {why}", file=sys.stderr)
        return 2
    from importlib import import_module

    from injector.blas import WithoutThreads

    with WithoutThreads():  # the module of some verbs imports NumPy
        module = import_module(f"injector.cli.{verb}")
    code: int = module.main(words[1:])
    return code


def _exit_now(code: int) -> int:
    """End this process: shutting the interpreter down would cost 4 ms in every run.

    Returns ``code`` only if the output cannot be flushed.
    """
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # no stream that works: Python reports it
        pass
    else:
        os._exit(code)
    return code

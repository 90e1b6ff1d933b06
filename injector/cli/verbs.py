"""The verbs of ``inject`` and of ``inject suite``, in the order in which they are used."""

from __future__ import annotations

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
SUITE_VERBS = {
    "install": "check out sources, make environments",
    "prepare": "make the data",
    "plan": "show every process that a run would start, and start none",
    "run": "run a suite, or go on with one that was interrupted",
    "report": "print the results of a suite: scores, failures, machines",
    "size": "measure which batch sizes fit the devices of this machine",
    "schema": "print the JSON Schema of a suite, for editors",
}


def usage_of(command: str, verbs: dict[str, str], more: str) -> str:
    """The help of a ``command`` with ``verbs``: a line for each verb, then the sentence ``more``."""
    lines = [f"  {verb:<10} {text}" for verb, text in verbs.items()]
    return "\n".join([f"usage: {command}", "", *lines, "", more])


def unknown_verb(verb: str, verbs: dict[str, str]) -> str:
    """The message about a verb that is none of ``verbs``, with the nearest one, or all, for a hint."""
    from difflib import get_close_matches

    near = get_close_matches(verb, verbs, 1)
    hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(verbs)})"
    return f"unknown verb {verb}{hint}"

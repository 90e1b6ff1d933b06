"""One command on a node of a Ray cluster, for ``inject run``; output, signals and exit code pass through."""

from __future__ import annotations

import base64
import secrets
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from ...errors import UserError
from .ray_client import RayClient
from .ray_engine import variables
from .ray_jobs import ENDED, OVER

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that are passed on to the command."""
OPTIONS = "address, cpus, gpus and resources.NAME"
HANDLE = "program"


def bundle_of(options: Mapping[str, str | bool]) -> dict[str, float]:
    """The resources, by Ray's names, that ``cpus``, ``gpus`` and ``resources.NAME`` in ``options`` name.

    One core, unless ``cpus`` is given. Raises UserError.
    """
    bundle = {"CPU": 1.0}
    for name, text in options.items():
        kind, _, resource = name.partition(".")
        if name not in ("address", "cpus", "gpus") and not (kind == "resources" and resource):
            raise UserError(f"--engine-option {name}: of ray there are {OPTIONS}")
        if name != "address":
            bundle[{"cpus": "CPU", "gpus": "GPU"}.get(name, resource)] = _amount(name, text)
    return {name: amount for name, amount in bundle.items() if amount}


def _amount(name: str, text: str | bool) -> float:
    """The number that the option ``name`` has. Raises UserError."""
    try:
        if (amount := float(text)) >= 0 and text is not True:
            return amount
    except ValueError:
        pass
    raise UserError(f"--engine-option {name}: a number of at least 0, not {text!r}")


def run(
    options: Mapping[str, str | bool],
    words: Sequence[str],
    here: str,
    folder: str,
    sources: Sequence[str],
    excluded: Sequence[str],
) -> int | str:
    """Run a command on a node, with its output passed on and signals passed to it.

    ``options`` are those of ``--engine-option``: the cluster's address, and the resources. ``words`` run in
    ``here``, which is the same path there, and record into ``folder``, which comes back from a node with
    files of its own. Such a node needs ``sources``, without what is ``excluded``.

    Returns the exit code, minus the signal that ended the command, or a sentence if it was lost. Raises
    UserError if there is no such cluster.
    """
    request: dict[str, Any] = {
        "bundle": bundle_of(options),
        "words": [words],
        "folders": [here],
        "output": None,
        "variables": variables(),
    }
    client = RayClient(
        {
            "name": f"run-{secrets.token_hex(8)}",
            "address": options.get("address"),
            "sources": sources,
            "excluded": excluded,
            "files": [],
        }
    )
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".here.") as mark:
        try:
            client.answer("open")
            request["mark"] = mark.name
            client.ask("submit", handle=HANDLE, request=request, results=[[folder]])
            client.ask("output", handle=HANDLE)
            return _follow(client)
        finally:
            client.close()


def _follow(client: RayClient) -> int | str:
    """Pass on the program's output, and signals to it, until it is over; returns what :func:`run` does."""

    def forward(number: int, frame: FrameType | None) -> None:
        client.ask("signal", handle=HANDLE, number=number)

    state: Mapping[str, Any] = {"state": ""}  # the last answer about it
    printed = False
    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        while not (printed and state["state"] in OVER):
            for answer in client.answers(1.0):
                if answer["event"] in ("error", "problem"):
                    return str(answer["text"])
                if answer["event"] == "job":
                    state = answer
                elif answer["event"] == "output":
                    stream = sys.stdout if answer["stream"] == 1 else sys.stderr
                    stream.buffer.write(base64.b64decode(answer["data"]))
                    stream.buffer.flush()
                printed = printed or answer["event"] == "printed"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    code: int = state["codes"][0]
    return code if state["state"] == ENDED else str(state["why"])

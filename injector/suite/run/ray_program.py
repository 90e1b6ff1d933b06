"""One command on a node of a Ray cluster: its output, signals and exit code are as here."""

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
OPTIONS = "address, cpus, gpus and resources.NAME"
HANDLE = "program"


def bundle_of(options: Mapping[str, str | bool]) -> dict[str, float]:
    """What ``cpus``, ``gpus`` and ``resources.NAME`` ask for: one core where nothing is. Raises UserError."""
    found = {"CPU": 1.0}
    for name, text in options.items():
        kind, _, own = name.partition(".")
        if name not in ("address", "cpus", "gpus") and not (kind == "resources" and own):
            raise UserError(f"--engine-option {name}: of ray there are {OPTIONS}")
        if name != "address":
            found[{"cpus": "CPU", "gpus": "GPU"}.get(name, own)] = _amount(name, text)
    return {name: amount for name, amount in found.items() if amount}


def _amount(name: str, text: str | bool) -> float:
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
    """Run ``words`` in the folder ``here`` of a node, which record into ``folder``; the exit code.

    ``sources``: what a node with a file system of its own needs, without what is ``excluded``. A code below 0
    is the signal that ended it, a text says why it was lost. Raises UserError where there is no such cluster.
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
            program = _RayProgram(client)
            request["mark"] = mark.name
            client.ask("submit", handle=HANDLE, request=request, results=[[folder]])
            client.ask("output", handle=HANDLE)
            return program.followed()
        finally:
            client.close()


class _RayProgram:
    """A program that was submitted."""

    def __init__(self, client: RayClient) -> None:
        self._client = client
        self._state: Mapping[str, Any] = {"state": ""}
        self._printed = False

    def followed(self) -> int | str:
        """Pass on its output and signals to it until it is over; its exit code, or why it was lost."""

        def forward(number: int, frame: FrameType | None) -> None:
            self._client.ask("signal", handle=HANDLE, number=number)

        before = {number: signal.signal(number, forward) for number in FORWARDED}
        try:
            while not (self._printed and self._state["state"] in OVER):
                for each in self._client.answers(1.0):
                    if each["event"] in ("error", "problem"):
                        return str(each["text"])
                    self._take(each)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        code = self._state["codes"][0]
        return code if self._state["state"] == ENDED else str(self._state["why"])

    def _take(self, answer: Mapping[str, Any]) -> None:
        if answer["event"] == "job":
            self._state = answer
        elif answer["event"] == "printed":
            self._printed = True
        elif answer["event"] == "output":
            stream = sys.stdout if answer["stream"] == 1 else sys.stderr
            stream.buffer.write(base64.b64decode(answer["data"]))
            stream.buffer.flush()

"""The suite's side of the process that talks to Ray (:mod:`.ray_agent`): starting it, requests and answers.

Both are lines of JSON, on the agent's stdin and stdout. An answer has an ``event``::

    {"do": "submit", "handle": "a.R0.1.9f2c", ...}    {"event": "open", "jobs": {...}, ...}
    {"do": "signal", "handle": ..., "number": 15}     {"event": "job", "handle": ..., "state": "running", ...}
    {"do": "close"}                                   {"event": "problem" | "error" | ..., "text": ...}
"""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import UserError

AGENT = "injector.suite.run.ray_agent"
CONNECT = 10.0
"""Seconds that a cluster has to take a connection."""
STARTS = 180.0
"""Seconds that Ray has to connect to a cluster, or to start one."""
ENDS = 30.0
"""Seconds that the agent has to end after its stdin was closed."""


class RayClient:
    """An agent, the process that is connected to a cluster; its creation does not wait for the connection.

    ``options`` are:

    - ``address``: ``HOST:PORT``, ``ray://HOST:PORT`` or ``local``; without it, ``ray.init`` finds a cluster.
    - ``resources``: those of a cluster that is started here (``local``).
    - ``variables``: more of them for the agent's environment.
    - ``name``: that of the actor for a suite's jobs. Without it, the agent answers ``facts`` and ends.
    - ``detached``: whether that actor, and the jobs, go on when the suite is killed.
    - ``sources``, ``excluded``: what nodes with file systems of their own need (:func:`.file_copy.entries`).
    - ``files``: paths of files that such nodes need for each job.

    Raises UserError if Ray is not installed.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        if importlib.util.find_spec("ray") is None:
            raise UserError("Ray is not installed here: pip install 'overlay-injector[ray]'")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in leave()
        words = [sys.executable, "-m", AGENT, json.dumps(options)]
        pipe = subprocess.PIPE
        # In a session of its own: a Ctrl-C of the terminal is the suite's to act upon.
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._text = b""
        """The beginning of an answer whose end has not come yet."""
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def ask(self, do: str, **facts: Any) -> None:
        """Send the request ``do``, a method ``do_…`` of the agent; what becomes of it comes as an answer."""
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(json.dumps({"do": do, **facts}).encode() + b"\n")
            stream.flush()
        except OSError:
            pass  # the agent has ended, for which answers() makes an answer

    def answers(self, seconds: float = 0.0) -> Iterator[dict[str, Any]]:
        """The answers that have come; if there is none, it waits for one at most so many seconds.

        When the agent ends, the last answer is an ``error`` with the reason, unless :meth:`close` was called.
        """
        if self._closed:
            return
        self._selector.select(seconds)
        ended = False
        try:
            while not ended:
                data = os.read(self._out, 1 << 20)
                self._text += data
                ended = not data
        except BlockingIOError:
            pass
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            yield json.loads(line)
        if ended:
            self._closed = True
            yield {"event": "error", "text": self._last_words()}

    def answer(self, event: str) -> dict[str, Any]:
        """Wait for the first answer that is an ``event``. Raises UserError if none comes in time."""
        end = time.monotonic() + STARTS
        while time.monotonic() < end:
            for answer in self.answers(1.0):
                if answer["event"] == event:
                    return answer
                if answer["event"] == "error":
                    raise UserError(str(answer["text"]))
        raise UserError(f"Ray did not answer in {STARTS:g} s")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "and left no word of it")
        return f"the process that talks to Ray ended: {last}"

    def close(self) -> None:
        """End the agent in order, and its actor if all jobs are over; waits for that."""
        self.ask("close")
        self.leave()

    def leave(self) -> None:
        """End the agent as the death of the suite would: jobs that are detached go on. Waits for that."""
        self._closed = True
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass
        try:
            self._process.wait(ENDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        self._errors.close()


def connection_error(address: str) -> str:
    """Why nothing takes a connection at ``HOST:PORT`` or ``ray://HOST:PORT``; empty if something does."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except ValueError:
        return "it is no HOST:PORT"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def cluster(address: str) -> dict[str, Any]:
    """The ``address`` of a cluster and its ``nodes``, each with ``id``, ``name``, ``resources`` and hardware.

    The hardware is as in :class:`..plan.machine.NodeFacts`. If ``address`` is empty and no cluster runs, the
    address is ``local`` and there are no nodes. Raises UserError if there is no such cluster, or no Ray here.
    """
    client = RayClient({"address": address})
    try:
        return client.answer("facts")
    finally:
        client.leave()

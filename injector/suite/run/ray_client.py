"""Our side of the process that talks to Ray (:mod:`.ray_agent`): starting it, and its lines of JSON."""

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
"""Seconds within which a cluster has to take a connection."""
STARTS = 180.0
"""Seconds within which Ray has to connect, or to start a cluster."""
ENDS = 30.0
"""Seconds within which it has to take its leave."""


class RayClient:
    """A process that is connected to a cluster.

    ``options``: ``address`` (``HOST:PORT``, ``ray://HOST:PORT``, ``local``; none: as ``ray.init`` finds it),
    ``resources`` of a local one, ``variables`` of the process. With ``name``, which a suite's jobs have in
    common, it looks after jobs: ``detached`` (they go on without the suite), ``sources`` and ``excluded``
    (what nodes with file systems of their own need), ``files`` (what they need for each job); without, it
    says which nodes there are and ends.

    Raises UserError where Ray is not installed.
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
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def ask(self, do: str, **facts: Any) -> None:
        """Have it do something; what becomes of it comes as an answer."""
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(json.dumps({"do": do, **facts}).encode() + b"\n")
            stream.flush()
        except OSError:
            pass  # its end is an answer, too

    def answers(self, seconds: float = 0.0) -> Iterator[dict[str, Any]]:
        """The answers that have come; waits for some, so many seconds at most.

        The last one of all is an ``error``, unless :meth:`close` was called.
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
        """The answer to come that is an ``event``. Raises UserError where it cannot."""
        end = time.monotonic() + STARTS
        while time.monotonic() < end:
            for each in self.answers(1.0):
                if each["event"] == event:
                    return each
                if each["event"] == "error":
                    raise UserError(str(each["text"]))
        raise UserError(f"Ray did not answer in {STARTS:g} s")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "and left no word of it")
        return f"the process that talks to Ray ended: {last}"

    def close(self) -> None:
        """Have it take its leave, and wait for that."""
        self.ask("close")
        self.leave()

    def leave(self) -> None:
        """Ask nothing more; wait for its end."""
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


def listens(address: str) -> bool:
    """Whether something takes connections at ``HOST:PORT``."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, ValueError):
        return False
    return True


def cluster(address: str) -> dict[str, Any]:
    """The ``address`` of a cluster and its ``nodes``: ``name``, ``resources``, :class:`.ssh_nodes.NodeFacts`.

    Raises UserError where there is none, or Ray is not installed.
    """
    client = RayClient({"address": address})
    try:
        return client.answer("facts")
    finally:
        client.leave()

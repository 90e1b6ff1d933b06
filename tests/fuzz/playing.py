"""Plays a program in a fork, with probes and without, as ``inject run`` would weave them in."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import injector.overseer.streams  # noqa: F401  what a fork need not import again
from injector.errors import UserError
from injector.overseer.planning import NoEngine
from injector.overseer.session import Session
from injector.rewrite.engine import Engine
from injector.rewrite.locate import ProgramSources
from injector.rewrite.survey import survey

FILE = os.path.join(tempfile.mkdtemp(), "program.py")
"""Tracebacks show its lines."""


class Played(NamedTuple):
    """What a program did, as seen from outside, and what the probes gave."""

    code: int
    out: str
    err: str
    messages: str = ""


WHILE_RUNNING = ("binding", "wrapped")
"""Landings that come once the program has bound the name."""


def place(landing: dict[str, Any]) -> str:
    """Where a probe lands, as `inject check` and a run both say it."""
    return f"{landing['function']}:{landing['line']}:{landing['kind']}"


class Said(NoEngine):
    """The record of a session: what it says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.landed: list[str] = []

    def emit(self, event: str, data: Any) -> None:
        if event == "probe" and data["landing"]["kind"] not in WHILE_RUNNING:
            self.landed.append(place(data["landing"]))
        self.lines.append(f"{event} {data}")


def play(source: str, selectors: Sequence[str] = (), events: bool = False) -> Played:
    """Run a program; with ``events``, what the probes gave stands in ``messages``."""

    def act() -> tuple[Any, Said]:
        message = Said()
        if not selectors:
            return compile(source, FILE, "exec", dont_inherit=True), message
        engine = Engine(lambda found: session.report(found))
        session = Session({"voirfiles": [], "options": [], "configs": []}, engine, message)
        session.begin()
        for text in selectors:
            try:
                probe = session.overseer.probe(text)
            except UserError as error:
                message.emit("refused", error)
                continue
            probe.subscribe(lambda data, text=text: message.emit("event", (text, shown(data))))
        session.load()
        code = engine.main_code(source.encode(), FILE)
        asked = [(t.request, t.found) for probe in session.probes for t in probe.targets]
        found = survey(ProgramSources.script(FILE), asked)[0]
        checked = {place(one._asdict()) for one in found if one.kind not in WHILE_RUNNING}
        if checked != set(message.landed):
            message.emit("inject check disagrees", checked ^ set(message.landed))
        return code, message

    return _forked(source, act)


limit = 2
"""A name that selectors may compare with."""


def shown(data: Any) -> Any:
    """An event without what differs from run to run."""
    kinds = (int, str, float, type(None))
    if isinstance(data, dict):
        return {key: shown(value) for key, value in data.items() if key != "id"}
    return data if isinstance(data, kinds) else type(data).__name__


def _forked(source: str, act: Callable[[], tuple[Any, Said]]) -> Played:
    with open(FILE, "w") as file:
        file.write(source)
    files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # a program's garbage is looked for among what it made itself
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            code = _child(source, act, files)
        finally:
            os._exit(code if "code" in locals() else 99)
    gc.unfreeze()
    _, status = os.waitpid(child, 0)
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode(errors="replace"))
        file.close()
    return Played(os.waitstatus_to_exitcode(status), *texts)


def _child(source: str, act: Callable[[], tuple[Any, Said]], files: Sequence[Any]) -> int:
    import io

    for number in (1, 2):
        os.dup2(files[number - 1].fileno(), number)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    message = None
    try:
        main = ModuleType("__main__")
        sys.modules["__main__"] = main
        code, message = act()
        exit_code = _run(code, vars(main))
    except BaseException:
        traceback.print_exc()
        exit_code = 98
    if message is not None:
        files[2].write("\n".join(message.lines).encode())
        files[2].flush()
    return exit_code


def _run(code: Any, namespace: dict[str, Any]) -> int:
    try:
        exec(code, namespace)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        trace = error.__traceback__
        sys.excepthook(
            type(error), error.with_traceback(trace and trace.tb_next), trace and trace.tb_next
        )
        return 1
    return 0

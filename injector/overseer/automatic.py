"""Shipped voirfiles in a process of the program: run when it imports their library, and kept apart.

What they ask for is no one's wish: where it is not found (a version of the library that nobody has
seen), or where the user's own voirfile asks for the same, that is noted once and nothing is wrong.
"""

from __future__ import annotations

import _frozen_importlib as importing
import _frozen_importlib_external as files
import os
import sys

from ..gc_padding import UncountedAllocations
from ..probe import points
from ..rewrite.method_calls import is_method
from . import voirfile

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from .neighbours import EventWriter, Rewriter
    from .overseer import Overseer
    from .phases import Instrument
    from .probes import Probe


class Automatic:
    """The shipped voirfiles of one process."""

    def __init__(
        self,
        overseer: Overseer,
        engine: Rewriter,
        record: EventWriter,
        methods: Iterable[str],
        together: Callable[[Callable[[], None]], None],
    ) -> None:
        """``together(act)`` runs ``act`` and installs the probes that it sets, all at once."""
        self._overseer = overseer
        self._engine = engine
        self._record = record
        self._together = together
        self._names: dict[str, str] = {}  # by path
        self._methods = {"." + method for method in methods}
        """Those that shipped voirfiles may ask for in this run."""
        self._missed: set[tuple[str, str]] = set()
        self._ours: list[Probe] = []
        self._claimed: set[tuple[object, ...]] = set()

    def expect(self, libraries: Mapping[str, Sequence[str]]) -> None:
        """Run the voirfiles of each library when the program has imported it."""
        for library, paths in libraries.items():

            def imported(module: ModuleType, paths: Sequence[str] = paths) -> None:
                for path in paths:
                    self.activate(path, module)

            self._engine.after_import(library, imported)

    def activate(self, path: str, library: ModuleType) -> None:
        """Run one voirfile, once. A mistake in it costs what it would have recorded."""
        if path in self._names:
            return
        name = self._names[path] = os.path.splitext(os.path.basename(path))[0]
        version = getattr(library, "__version__", None)
        about: dict[str, Any] = {"name": name, "library": library.__name__, "tested": None}
        about["version"] = None if version is None else str(version)
        try:
            with UncountedAllocations():
                module = _run(f"__voir_{name}__", path)
                about["tested"] = list(getattr(module, "TESTED", ())) or None
                found = voirfile.instruments(vars(module))
                instruments = [(path, self._guarded(path, each)) for each in found]
                self._together(lambda: self._overseer.start(instruments))
        except Exception as error:
            self.missed(path, name, f"{type(error).__name__}: {error}")
        self._record.emit("voirfile", about)

    def _guarded(self, path: str, instrument: Instrument) -> Instrument:
        """``instrument``, whose mistakes are the library's being another than it knows."""

        def called(ov: Overseer) -> Any:
            try:
                return instrument(ov)
            except Exception as error:
                name = getattr(instrument, "__name__", repr(instrument))
                self.missed(path, name, f"{type(error).__name__}: {error}")
                return None

        return called

    def admits(self, probe: Probe) -> bool:
        """Whether ``probe`` is to be installed: a user's always, and then ours gives way to it."""
        kinds = _kinds(probe)
        if probe.place[0] in self._names:
            variables = {target.request.variable for target in probe.targets}
            methods = {variable for variable in variables if is_method(variable)}
            if self._claimed.isdisjoint(kinds) and methods <= self._methods:
                self._ours.append(probe)
                return True
            return False
        self._claimed |= kinds
        for other in [other for other in self._ours if not kinds.isdisjoint(_kinds(other))]:
            self._ours.remove(other)
            for hook in other.hooks:
                points.undefine(hook)
        return True

    def owner(self, file: str) -> str | None:
        """The name of the shipped voirfile at ``file``, if that is one."""
        return self._names.get(file)

    def missed(self, file: str, what: str, reason: str) -> None:
        """Note that something was not found, once."""
        name = self._names[file]
        if (name, what) not in self._missed:
            self._missed.add((name, what))
            self._record.emit("auto-missed", {"voirfile": name, "what": what, "reason": reason})


def _kinds(probe: Probe) -> set[tuple[object, ...]]:
    """What of a probe must not be there twice: a region of one function, a series of values."""
    if probe.gives is None:
        return set()
    if probe.gives.startswith("value:"):
        return {(probe.gives,)}
    requests = [target.request for target in probe.targets]
    return {(probe.gives, request.module, request.path) for request in requests}


def _run(name: str, path: str) -> ModuleType:
    """A file as a module that no program imports; its bytecode is kept, unlike that of a user's."""
    spec: Any = files.spec_from_file_location(name, path)
    module: ModuleType = importing.module_from_spec(spec)
    sys.modules[name] = (
        module  # dataclasses, pickle and inspect look a class's module up by its name
    )
    spec.loader.exec_module(module)
    return module

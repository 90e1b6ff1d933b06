"""Loading voirfiles, those that a user names and the shipped ones, and finding their instruments.

A voirfile runs once, as a module of its own (``__voir__``, ``__voir1__``, …). Its instruments are what
``__instruments__`` holds (nested lists and dicts are flattened), else every name that starts with
``instrument_``.

A shipped voirfile runs when the program imports its library. What it requests and does not find, in a version
of the library that it was not tested with, is noted once and is no error; and where the user's own voirfile
requests the same, the shipped one gives way.
"""

from __future__ import annotations

import _frozen_importlib as importing
import _frozen_importlib_external as files
import os
import sys
from types import ModuleType

from ..errors import UserError
from ..gc_padding import UncountedAllocations
from ..probe import points
from ..rewrite.method_calls import is_method

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .overseer import Overseer
    from .phases import Instrument
    from .probes import Probe

PREFIX = "instrument_"


def load(path: str, number: int) -> list[Any]:
    """Run the voirfile at ``path``, the one with this number, and return its instruments in order.

    Raises UserError if it cannot be read, does not parse, raises, or defines no instrument.
    """
    name = f"__voir{number}__" if number else "__voir__"
    module = ModuleType(name)
    module.__file__ = path
    # dataclasses, pickle and inspect look a class's module up by its name.
    sys.modules[name] = module
    code = compile_voirfile(path)
    try:
        exec(code, module.__dict__)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a voirfile that exits must not end the program
        raise UserError(f"voirfile {path} raised:\n{_trace(error, path)}") from error
    defined = instruments(module.__dict__)
    if not defined:
        raise UserError(
            f"voirfile {path} has no instrument: it defines neither a function named "
            f"{PREFIX}… nor __instruments__"
        )
    return defined


def compile_voirfile(path: str) -> Any:
    """Return the code of the file at ``path``.

    Raises UserError if it cannot be read, or does not parse; then with file, line and a caret.
    """
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UserError(f"voirfile {path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise UserError(f"voirfile {path} does not parse:\n{_trace(error, path)}") from error


def instruments(namespace: dict[str, Any]) -> list[Any]:
    """Return the instruments that a voirfile's namespace defines."""
    if "__instruments__" in namespace:
        return _flat(namespace["__instruments__"])
    return [
        one for name, value in namespace.items() if name.startswith(PREFIX) for one in _flat(value)
    ]


def _flat(value: Any) -> list[Any]:
    """Flatten nested lists and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _flat(part)]
    return [value]


def _trace(error: BaseException, path: str) -> str:
    """Return the traceback of ``error`` from the voirfile on: the frames before it are ours."""
    import traceback

    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != path:
        step = step.tb_next
    lines = traceback.format_exception(type(error), error, step)
    return "".join(lines).rstrip()


# -- shipped ----------------------------------------------------------------------------------------


class ShippedVoirfiles:
    """The shipped voirfiles of one process: runs them, and decides which of their probes are installed."""

    def __init__(
        self,
        overseer: Overseer,
        after_import: Callable[[str, Callable[[Any], None]], None],
        emit: Callable[[str, Any], None],
        methods: Iterable[str],
        together: Callable[[Callable[[], None]], None],
    ) -> None:
        """``methods`` are those whose calls shipped voirfiles may record in this run (``.to``).

        ``together(act)`` calls ``act`` and installs the probes that it sets, all at once.
        """
        self._overseer = overseer
        self._after_import = after_import
        self._emit = emit
        self._together = together
        self._names: dict[str, str] = {}  # by path
        self._methods = {"." + method for method in methods}
        self._missed: set[tuple[str, str]] = set()
        self._ours: list[Probe] = []
        self._claimed: set[tuple[object, ...]] = set()

    def expect(self, libraries: Mapping[str, Sequence[str]]) -> None:
        """Run the voirfiles of each library (paths) once the program has imported it."""
        for library, paths in libraries.items():

            def imported(module: ModuleType, paths: Sequence[str] = paths) -> None:
                for path in paths:
                    self.activate(path, module)

            self._after_import(library, imported)

    def activate(self, path: str, library: ModuleType) -> None:
        """Run one voirfile, once. An error in it costs only what it would have recorded."""
        if path in self._names:
            return
        name = self._names[path] = os.path.splitext(os.path.basename(path))[0]
        version = getattr(library, "__version__", None)
        record: dict[str, Any] = {"name": name, "library": library.__name__, "tested": None}
        record["version"] = None if version is None else str(version)
        try:
            with UncountedAllocations():
                module = _run(f"__voir_{name}__", path)
                record["tested"] = list(getattr(module, "TESTED", ())) or None
                guarded = [(path, self._guarded(path, each)) for each in instruments(vars(module))]
                self._together(lambda: self._overseer.start(guarded))
        except Exception as error:
            self.missed(path, name, f"{type(error).__name__}: {error}")
        self._emit("voirfile", record)

    def _guarded(self, path: str, instrument: Instrument) -> Instrument:
        """Return ``instrument`` with its errors noted: the library is of a version that it does not know."""

        def called(ov: Overseer) -> Any:
            try:
                return instrument(ov)
            except Exception as error:
                name = getattr(instrument, "__name__", repr(instrument))
                self.missed(path, name, f"{type(error).__name__}: {error}")
                return None

        return called

    def admits(self, probe: Probe) -> bool:
        """Whether ``probe`` is to be installed. A user's always is, and a shipped one gives way to it."""
        claims = _claims(probe)
        if probe.place[0] in self._names:
            variables = {target.request.variable for target in probe.targets}
            methods = {variable for variable in variables if is_method(variable)}
            if self._claimed.isdisjoint(claims) and methods <= self._methods:
                self._ours.append(probe)
                return True
            return False
        self._claimed |= claims
        for other in [other for other in self._ours if not claims.isdisjoint(_claims(other))]:
            self._ours.remove(other)
            for hook in other.hooks:
                points.undefine(hook)
        return True

    def owner(self, file: str) -> str | None:
        """Return the name of the shipped voirfile at ``file``; None if that is none."""
        return self._names.get(file)

    def missed(self, file: str, what: str, reason: str) -> None:
        """Record that ``what`` of the voirfile at ``file`` was not found, once."""
        name = self._names[file]
        if (name, what) not in self._missed:
            self._missed.add((name, what))
            self._emit("auto-missed", {"voirfile": name, "what": what, "reason": reason})


def _claims(probe: Probe) -> set[tuple[object, ...]]:
    """Return what a probe records that must not be recorded twice: a region of a function, a series."""
    if probe.gives is None:
        return set()
    if probe.gives.startswith("value:"):
        return {(probe.gives,)}
    requests = [target.request for target in probe.targets]
    return {(probe.gives, request.module, request.path) for request in requests}


def _run(name: str, path: str) -> ModuleType:
    """Run a file as a module that no program imports. Its bytecode is cached, unlike that of a user's."""
    spec: Any = files.spec_from_file_location(name, path)
    module: ModuleType = importing.module_from_spec(spec)
    sys.modules[name] = module  # for dataclasses, pickle and inspect, as in `load`
    spec.loader.exec_module(module)
    return module

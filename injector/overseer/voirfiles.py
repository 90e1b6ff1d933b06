"""Finding the instruments of voirfiles: of those that a user names, and of the shipped ones.

A voirfile is run once, as a module of its own (``__voir__``, ``__voir1__``, …), and its instruments
are what ``__instruments__`` holds (nested lists and dicts are flattened), else every name that starts
with ``instrument_``. A shipped one runs when the program imports its library. What it requests and does not
find (in a version of the library that it was not tested with), or what the user's own voirfile requests as
well, is noted once and is no mistake.
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
    """Run the voirfile at ``path``; return its instruments in order.

    Raises:
        UserError: it cannot be read, does not parse, raises, or defines no instrument.
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
    except (Exception, SystemExit) as error:  # it may not end the program
        raise UserError(f"voirfile {path} raised:\n{_trace(error, path)}") from error
    found = instruments(module.__dict__)
    if not found:
        raise UserError(
            f"voirfile {path} has no instrument: it defines neither a function named "
            f"{PREFIX}… nor __instruments__"
        )
    return found


def compile_voirfile(path: str) -> Any:
    """Compile the file at ``path``.

    Raises:
        UserError: with file, line and a caret when it does not parse.
    """
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UserError(f"voirfile {path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise UserError(f"voirfile {path} does not parse:\n{_trace(error, path)}") from error


def instruments(namespace: dict[str, Any]) -> list[Any]:
    """The instruments that a voirfile's namespace defines."""
    if "__instruments__" in namespace:
        return _flat(namespace["__instruments__"])
    return [
        one for name, value in namespace.items() if name.startswith(PREFIX) for one in _flat(value)
    ]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _flat(part)]
    return [value]


def _trace(error: BaseException, path: str) -> str:
    """The traceback from the voirfile on: what lies before is ours."""
    import traceback

    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != path:
        step = step.tb_next
    lines = traceback.format_exception(type(error), error, step)
    return "".join(lines).rstrip()


# -- shipped ----------------------------------------------------------------------------------------


class ShippedVoirfiles:
    """The shipped voirfiles of one process."""

    def __init__(
        self,
        overseer: Overseer,
        after_import: Callable[[str, Callable[[Any], None]], None],
        emit: Callable[[str, Any], None],
        methods: Iterable[str],
        together: Callable[[Callable[[], None]], None],
    ) -> None:
        """``together(act)`` runs ``act`` and installs the probes that it sets, all at once."""
        self._overseer = overseer
        self._after_import = after_import
        self._emit = emit
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

            self._after_import(library, imported)

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
                found = [(path, self._guarded(path, each)) for each in instruments(vars(module))]
                self._together(lambda: self._overseer.start(found))
        except Exception as error:
            self.missed(path, name, f"{type(error).__name__}: {error}")
        self._emit("voirfile", about)

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
            self._emit("auto-missed", {"voirfile": name, "what": what, "reason": reason})


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

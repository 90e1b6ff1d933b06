"""One process of the program, overseen: from loading the voirfiles to the end of the last phase.

:class:`Session` holds what a process has of ours together. It creates the overseer and drives its phases;
passes the probes that instruments set to the engine, which rewrites code, and what the engine finds to the
record; and writes at the end how often each probe has fired. The launcher calls ``begin`` and ``load`` before
the program, ``finish`` after it, and after each fork ``after_fork`` in the child.
"""

from __future__ import annotations

import _thread
import os
import sys
from functools import wraps
from types import CodeType

from ..bus import inbox
from ..errors import UserError
from ..origin import PROGRAM, origin
from ..probe import points, stop
from ..probe.points import Point, silence, undefine
from ..rewrite.method_calls import hook_of, is_method
from ..rewrite.request import Unmatched
from . import voirfiles
from .log import take_smuggled
from .overseer import Overseer
from .probes import Probe
from .voirfiles import ShippedVoirfiles

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from ..bus.writer import Writer
    from ..rewrite.engine import Engine
    from ..rewrite.request import Match, Request
    from .phases import Phase


WORKERS = "torch.utils.data._utils.worker"
"""The module of DataLoader workers, processes whose time is not the training's. They run code of the program
(its dataset), so that probes would fire in them: without ``--workers``, no hook in a worker does anything."""
_NO_LIMITS = {"skip": 0, "stop": None, "until": None}
_NO_REASON = {"task": None, "steps": None, "why": None}


class Session:
    """Drives the phases of one process: :meth:`begin`, :meth:`load`, then :meth:`finish`."""

    def __init__(self, config: Mapping[str, Any], engine: Engine, record: Writer) -> None:
        self._config = config
        self._engine = engine
        self._record = record
        self._probes: dict[str, Probe] = {}  # by hook
        self._methods: dict[str, list[Probe]] = {}  # by the hook that they share
        self._labels: dict[Probe, str] = {}  # the name of each in the record
        self._met: set[str] = set()  # hooks whose place was found
        self._landed: dict[tuple[str, str], set[str]] = {}  # selectors by file and function
        self._pending: list[Probe] | None = []  # probes that are armed together, when `load` ends
        self._gathered: dict[int, list[Probe]] = {}  # by thread, those that `_arm_together` arms
        self._failed: set[tuple[str, type[BaseException]]] = set()
        self._finished = False
        self._before_fork: dict[str, int] = {}
        self.overseer = Overseer(record, self._install, self._failure, engine.after_import)
        self.overseer.lenient = bool(config.get("found"))
        self.overseer.end_job = self._stop_job
        methods = config.get("methods", ())
        self._shipped = ShippedVoirfiles(
            self.overseer, engine.after_import, record.emit, methods, self._arm_together
        )
        points.listen(
            failure=self._hook_failed, first=self._first_fire, define=engine.on_hook_defined
        )
        stop.listen(
            stop=self._stopping, give_up=lambda: self.finish(None), later=self.overseer.goes_on
        )
        # A voirfile may stop one rank: then all have to stop at the same step, so steps are counted.
        may_stop = bool(config["voirfiles"]) and (self.overseer.world > 1 or self._is_child())
        profiled, folder = config.get("torch_profile"), config.get("run")
        if config.get("pace") or may_stop or profiled:
            self.overseer.pace(config.get("pace") or _NO_LIMITS, folder)
        if profiled and folder:
            self.overseer.profile((profiled[0], profiled[1]), folder)

    def begin(self) -> None:
        """Load the voirfiles, and run the phases ``init`` and ``parse_args``.

        Raises UserError for a voirfile, an option or a configuration that cannot be used. Without a voirfile
        that was found, and not named, the program runs nevertheless.
        """
        overseer = self.overseer
        self._meet("voir.phase", stop.adopt)
        try:
            declare(overseer, self._config["voirfiles"], self._config["configs"])
        except UserError as error:
            self._run_without(error)
        self._tell_voir()
        if not self._config.get("workers"):
            self._engine.after_import(WORKERS, _silence_workers)
        with overseer.run_phase(overseer.phases.parse_args):
            try:
                overseer.parse(self._config["options"])
            except UserError as error:
                if any(overseer.declared.takers(name) for name, *_ in self._config["options"]):
                    raise  # an option of that voirfile was given
                self._run_without(error)

    def _run_without(self, error: UserError) -> None:
        """Go on without the voirfile, if it was found and not named; else raise ``error``."""
        if not self._config.get("found") or self._config["configs"]:
            raise error
        self.overseer.stop_instruments(GeneratorExit())
        path = os.path.relpath(self._config["voirfiles"][0])
        cause = error if error.__cause__ is None else error.__cause__
        self._failure(f"the program ran without {path}, which was found and cannot be used", cause)

    def load(self) -> None:
        """Run the phase ``load_script``, and arm all probes that were set until its end."""
        overseer = self.overseer
        with overseer.run_phase(overseer.phases.load_script):
            pass
        # Together, so that a module that several of them name is rewritten once.
        pending, self._pending = self._pending or [], None
        self._arm(pending)

    def expect(self, libraries: Mapping[str, Sequence[str]], layers: int = 0) -> None:
        """Run shipped voirfiles when the program imports their libraries.

        ``libraries`` maps a library to the paths of its voirfiles; ``layers`` is the depth of ``--layers``.
        """
        self.overseer.layers = layers
        self._shipped.expect(libraries)

    def finish(self, exception: BaseException | None = None, code: int | None = None) -> None:
        """End the phases ``run_script`` and ``finalize``, complete the streams, write the last records.

        ``exception`` is what ended the program, if anything did, ``code`` its exit code if that is known.
        Only the first call does anything.
        """
        if self._finished:
            return
        stop.main_ends()
        self._finished = True
        try:
            self._end_phases(exception)
            self._report_uncalled()
            self.count()
            self._emit_end(code)
        except BaseException as error:
            self._failure("the end of the run", error)

    def after_fork(self) -> None:
        """Begin anew in the child of a fork: hooks count from zero. The phases end in the parent alone."""
        self._finished = True
        self._before_fork = self._counts()
        self.overseer.renew()
        for point in points.defined.values():
            point.renew()

    def leave_fork(self, code: int | None) -> None:
        """Write the last records of the child of a fork, which ends with ``code`` if that is known."""
        self.overseer.close_measures()
        self.count()
        self._emit_end(code)

    def _emit_end(self, code: int | None) -> None:
        self._record.emit("end", {} if code is None else {"code": code})
        self._record.close()

    def count(self, *, always: bool = True) -> None:
        """Record how often each probe has fired in this process; if not ``always``, only if one has."""
        fired = self._fired()
        if always or any(fired.values()):
            self._record.emit("fired", fired)
        places = self._engine.compiled
        compiled = {selector for place in places for selector in self._landed.get(place, ())}
        if compiled:
            self._record.emit("compiled", {"selectors": sorted(compiled)})

    @property
    def probes(self) -> list[Probe]:
        """All probes, in the order in which they were set."""
        return list(self._labels)

    # --- phases ------------------------------------------------------------------------------------

    def _end_phases(self, exception: BaseException | None) -> None:
        overseer = self.overseer
        phases = overseer.phases
        if stop.stopped_by is None and exception is None and stop.left_by is not None:
            stop.stopped_by = stop.left_by
            self._stopping()
        if stop.stopped_by is not None:
            exception = stop.as_both_stops(stop.stopped_by)
        elif exception is not None:
            self._record.emit("error", _described(exception))
        self._end_phase(phases.run_script, exception)
        overseer.close()
        self._end_phase(phases.finalize, None)
        overseer.let_go()

    def _end_phase(self, phase: Phase, exception: BaseException | None) -> None:
        try:
            self.overseer.end_phase(phase, exception)
        except BaseException as error:
            if not stop.is_stop(error):  # the program has come to its end already
                self._failure(f"phase {phase.name}", error)

    def stop_before(self, error: BaseException) -> bool:
        """Whether ``error``, which an instrument raised, stops the program before it has begun.

        If so, all that goes with a stop is done.
        """
        if isinstance(error, KeyboardInterrupt) or not stop.is_stop(error):
            return False
        stop.stopped_by = error
        self._stopping()
        self.overseer.stop_instruments(stop.as_both_stops(error))
        return True

    def _stopping(self) -> None:
        """Record that the program is being stopped on purpose, and why."""
        # Of a stop after some steps the value says which; of `ov.stop` it is anything.
        value = getattr(stop.stopped_by, "value", None)
        paced = isinstance(value, dict) and "why" in value
        self._record.emit("stop", value if paced else _NO_REASON)
        # Other ranks may wait for one that a voirfile stopped: the supervisor ends them after a while.
        for_all = not paced and self._is_child() and self.overseer.world > 1
        inbox.tell(self._config.get("inbox"), os.getpid() if for_all else -os.getpid())

    def _stop_job(self) -> None:
        """End the program here; in a process that it has started, all that ``inject run`` has started."""
        if self._is_child() and inbox.tell(self._config.get("inbox"), 0):
            self._record.emit("stop", _NO_REASON)
        else:
            stop.request_stop(stop.StopProgram(), sys._getframe())

    def _is_child(self) -> bool:
        """Whether the program has started this process."""
        address: str | None = self._config.get("inbox")
        return address is not None and os.getppid() != inbox.owner(address)

    def _tell_voir(self) -> None:
        """Have ``voir.log`` and ``voir.iterate`` in the program find the overseer, through voir itself."""
        self._meet("voir.helpers", lambda module: module.current_overseer.set(self.overseer))
        self._meet("voir.smuggle", lambda module: take_smuggled(module, self.overseer.log))

    def _meet(self, name: str, action: Callable[[Any], None]) -> None:
        """Call ``action`` with the module ``name``, now or once it has been imported."""
        loaded = sys.modules.get(name)
        if loaded is not None:
            action(loaded)
        else:
            self._engine.after_import(name, action)

    # --- probes ------------------------------------------------------------------------------------

    def _install(self, probe: Probe) -> None:
        """Take a probe that an instrument has set, and arm it, now or together with others."""
        if not self._shipped.admits(probe):
            for hook in probe.hooks:
                undefine(hook)
            return
        label = probe.selector
        if any(label == other for other in self._labels.values()):
            # Two probes may have the same selector. Then the line of the voirfile is added to the second.
            label = f"{label} ({probe.place[0]}:{probe.place[1]}, no. {len(self._labels) + 1})"
        self._labels[probe] = label
        if self._shipped.owner(probe.place[0]) is None:
            probe.on_first = lambda: self._record.emit("first", {"selector": label})
        for hook in probe.hooks:
            self._probes[hook] = probe
        gathered = self._gathered.get(_thread.get_ident(), self._pending)
        if gathered is not None:
            gathered.append(probe)
        else:
            self._arm([probe])

    def _arm_together(self, action: Callable[[], None]) -> None:
        """Arm the probes that ``action`` sets all at once, so that a function with two is rewritten once."""
        here = _thread.get_ident()
        if here in self._gathered:
            action()
            return
        probes = self._gathered[here] = []
        try:
            action()
        finally:
            del self._gathered[here]
            self._arm(probes)

    def _arm(self, probes: list[Probe]) -> None:
        """Record what ``probes`` request, and pass it to the engine."""
        named: list[Request] = []
        late: list[Request] = []
        for probe in probes:
            file, line = probe.place
            automatic = self._shipped.owner(file) is not None
            # The record tells of a user's probes only: what shipped ones did not find is noted elsewhere.
            if not automatic:
                request = {"selector": self._labels[probe], "file": file, "line": line}
                self._record.emit("request", request)
            for target in probe.targets:
                if is_method(target.request.variable):
                    method = str(target.request.variable)[1:]
                    self._methods.setdefault(hook_of(method), []).append(probe)
                    self._engine.add_method(method, automatic)
                elif target.found is None:
                    # Shipped voirfiles probe large libraries, whose whole text it would take long to parse:
                    # each function is instrumented by itself, once its module has been loaded.
                    (late if automatic else named).append(target.request)
                else:
                    self._engine.attach(target.found, target.request)
        if named:
            self._engine.add(named)
        if late:
            self._engine.add_late(late)

    def report(self, outcome: Match | Unmatched) -> None:
        """Record what the engine has found for a request: a place, or none."""
        if is_method(outcome.request.variable):
            for probe in self._methods.get(outcome.request.hook, ()):
                self._report(probe, outcome)
        else:
            self._report(self._probes.get(outcome.request.hook), outcome)

    def _report(self, probe: Probe | None, outcome: Match | Unmatched) -> None:
        selector = self._labels[probe] if probe else ""
        if probe is not None and self._shipped.owner(probe.place[0]) is not None:
            if isinstance(outcome, Unmatched) and not _is_in_program(probe):
                self._shipped.missed(probe.place[0], probe.selector, outcome.reason)
            return
        if isinstance(outcome, Unmatched):
            if probe is not None and probe.is_optional(outcome.request):
                return
            data = {
                "selector": selector,
                "reason": outcome.reason,
                "nearest": list(outcome.nearest),
            }
            self._record.emit("miss", data)
            # A call that is entered and never left would stay open for good.
            if (
                probe is not None
                and outcome.request.variable == "#exit"
                and probe.hooks[0] in self._met
            ):
                for hook in probe.hooks:
                    undefine(hook)
            return
        self._met.add(outcome.request.hook)
        self._met.update(probe.hooks if probe is not None else ())
        landing = outcome._asdict()
        del landing["request"]
        self._landed.setdefault((outcome.file, outcome.function), set()).add(selector)
        self._record.emit(
            "probe", {"selector": selector, "hook": outcome.request.hook, "landing": landing}
        )

    def _report_uncalled(self) -> None:
        """Record as misses the requested methods of which no file of the program has had a call."""
        for probe in {probe: None for probes in self._methods.values() for probe in probes}:
            if self._met.isdisjoint(probe.hooks) and self._shipped.owner(probe.place[0]) is None:
                reason = f"no call of a method {probe.selector} in the program's own files"
                miss = {"selector": self._labels[probe], "reason": reason, "nearest": []}
                self._record.emit("miss", miss)

    def _fired(self) -> dict[str, int]:
        """Return how often each probe has fired in this process, without what its parent has counted."""
        before = self._before_fork
        return {key: count - before.get(key, 0) for key, count in self._counts().items()}

    def _counts(self) -> dict[str, int]:
        """Return how often each probe of the user's voirfiles has fired, by its label."""
        return {
            label: probe.fired
            for probe, label in self._labels.items()
            if self._shipped.owner(probe.place[0]) is None
        }

    def _first_fire(self, point: Point) -> None:
        """Note that a hook was called for the first time."""
        probe = self._probes.get(point.name)
        if probe is not None and point.name in probe.counted:
            probe.on_first()

    # --- mistakes ----------------------------------------------------------------------------------

    def _hook_failed(self, point: Point, error: BaseException) -> None:
        from ..measure.values import NoNumberError

        probe = self._probes.get(point.name)
        # The trace would end where the value was to be stored, and not at the line to change.
        place = probe.place if probe and isinstance(error, NoNumberError) else None
        self._failure(f"probe {probe.selector!r}" if probe else point.name, error, place)

    def _failure(
        self, where: str, error: BaseException, place: tuple[str, int] | None = None
    ) -> None:
        """Record a mistake of ours or of a voirfile, once for each place and type of error.

        ``place`` is the line of the voirfile that it is about, if the traceback does not show that.
        """
        if (where, type(error)) in self._failed:
            return
        self._failed.add((where, type(error)))
        import traceback

        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if place is not None:
            trace += f'  File "{place[0]}", line {place[1]}\n'
        self._record.emit(
            "failure",
            {"where": where, "type": type(error).__name__, "message": str(error), "trace": trace},
        )


def _silence_workers(module: ModuleType) -> None:
    """Have the entry function of DataLoader workers silence all hooks first.

    The replacement has the name of the original, by which a spawned worker unpickles it.
    """
    loop = module._worker_loop

    @wraps(loop)
    def _worker_loop(*arguments: Any, **keywords: Any) -> Any:
        silence()
        return loop(*arguments, **keywords)

    module._worker_loop = _worker_loop  # type: ignore[attr-defined]


def _is_in_program(probe: Probe) -> bool:
    """Whether a shipped voirfile probes a function of the program, which a library cannot lack."""
    codes = [getattr(target.found, "__code__", None) for target in probe.targets]
    files = [os.path.abspath(code.co_filename) for code in codes if type(code) is CodeType]
    return any(origin(file) == PROGRAM for file in files)


def _described(error: BaseException) -> dict[str, str]:
    """Return an exception that ended the program in the form of milabench's event ``error``."""
    import traceback

    return {
        "type": type(error).__name__,
        "message": str(error),
        "trace": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
    }


def declare(overseer: Overseer, paths: list[str], configs: list[str]) -> None:
    """Load the voirfiles and run the phase ``init``. Afterwards every option is declared.

    Raises UserError for a voirfile or a configuration that cannot be used.
    """
    if configs:
        from .options import read_config

        for config in configs:
            overseer.declared.merge_base_config(read_config(config), config)
    instruments = [
        (path, instrument)
        for number, path in enumerate(paths)
        for instrument in voirfiles.load(path, number)
    ]
    overseer.start(instruments)
    with overseer.run_phase(overseer.phases.init):
        pass

"""The ``ov`` that a voirfile receives."""

from __future__ import annotations

import os
import sys
from itertools import count

from ..errors import UserError
from ..measure.studies import StudyMeasures
from ..measure.waits import Waits
from ..origin import PROGRAM, origin, shipped
from ..probe.stop import StopProgram
from .log import RecordLog
from .phases import Phases, Schedule
from .probes import Probe

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from ..bus.writer import Writer
    from ..measure.pacing import Pacing
    from ..measure.regions import CallHooks
    from ..measure.values import Store
    from .phases import Instrument, Phase, Running

PHASES = ("init", "parse_args", "load_script", "run_script", "finalize")


class NoSuchAttribute(UserError, AttributeError):
    """Something that ``ov`` does not have; ``hasattr`` may ask for it."""


class Overseer(StudyMeasures):
    """Phases, options, probes and streams of one process of the program.

    ``phases``, ``require`` and ``run_phase`` drive instruments; ``argparser`` and ``options`` are what
    voirfiles declare and what was given; ``probe`` gives a stream of ``giving``; ``value``, ``region``,
    ``override``, ``step`` and ``loader`` are the fast ways, which never go through a stream.
    """

    def __init__(
        self,
        recorder: Writer,
        install: Callable[[Probe], None],
        on_error: Callable[[str, BaseException], None],
        after_import: Callable[[str, Callable[[Any], None]], None],
    ) -> None:
        self._after_import = after_import
        self.phases = Phases(*PHASES)
        self._values: dict[str | None, Any] = {}
        self.layers = 0
        """Down to which depth calls of modules are recorded (``--layers``); 0 for none."""
        self.lenient = False
        """Whether the program runs even if a voirfile is no good: it was found, not named."""
        self.end_job: Callable[[], None] = lambda: None
        """Ends all processes of the program, as the event ``stop`` asks for."""
        self.log = RecordLog(recorder.emit, lambda: self.end_job())
        size = os.environ.get("WORLD_SIZE", "")
        self.world = int(size) if size.isdecimal() else 1
        """How many processes train together, as far as is known."""
        self._emit = recorder.emit
        self._install = install
        self._on_error = on_error
        self._schedule = Schedule(self, self.phases, self._instrument_failed)
        self._declared: Any = None
        self._given: Any = None
        self._next_number = count(1).__next__
        self._streams: list[Any] = []
        self._pacing: Pacing | None = None
        super().__init__(self._request, recorder, self._note_loop_failure, on_error)
        self._waits = Waits(self._spans, after_import)

    def record_memory(self) -> None:
        """Record the memory of regions as well, of all that are declared from now on (``--memory``)."""
        self._spans.record_memory()

    # --- instruments and phases --------------------------------------------------------------------

    def require(self, *instruments: Instrument) -> Any:
        """Activate instruments, each once; returns their state (a list if there are several)."""
        states = [self._schedule.require(instrument) for instrument in instruments]
        return states[0] if len(states) == 1 else states

    def run_phase(self, phase: Phase) -> Running:
        """Context manager whose body is the phase; instruments waiting for it are resumed after."""
        self._emit("phase", {"name": phase.name})
        return self._schedule.run_phase(phase)

    def stop(self, value: object = None) -> NoReturn:
        """End the program here, successfully: ``finally`` blocks run, the exit code is 0."""
        raise StopProgram(value)

    def abort(self, error: BaseException) -> NoReturn:
        """End the program by raising ``error`` in it."""
        from voir.phase import OverseerAbort

        raise OverseerAbort(error)

    def tag(self, key: str, value: object) -> None:
        """Give the run a property, as ``--tag`` does, whose own count before these.

        Raises UserError for a key that is none.
        """
        if not isinstance(key, str) or not key.strip() or "=" in key or not key.isprintable():
            raise UserError(f"ov.tag: a key is a word without =, such as 'lr', not {key!r}")
        self._emit("tagged", {key.strip(): str(value)})

    # --- options -----------------------------------------------------------------------------------

    @property
    def argparser(self) -> Any:
        """The parser to declare options in, the voirfile's own; complete when ``parse_args`` ends."""
        return self.declared.of(self._schedule.layer)

    @property
    def options(self) -> Any:
        """What was given, or is the default, of each option; None before ``parse_args`` ends."""
        values = self._values
        if len({id(each) for each in values.values()}) > 1:  # voirfiles that declare the same
            voirfile = self._schedule.layer or sys._getframe(1).f_code.co_filename
            return values.get(voirfile) or next(iter(values.values()))
        return next(iter(values.values()), None)

    @property
    def declared(self) -> Any:
        """The options of all voirfiles."""
        if self._declared is None:
            from .options import Options

            self._declared = Options()
        return self._declared

    def parse(self, groups: Sequence[Sequence[str]]) -> None:
        """Read what was given of the options; where none was declared, ``argparse`` stays away.

        Raises:
            UserError: an option or a value that is not right.
        """
        if self._declared is not None:
            self._values = self._declared.parse(groups)

    # --- streams -----------------------------------------------------------------------------------

    @property
    def given(self) -> Any:
        """The stream of what the program gives with ``give(…)``; imports ``giving``."""
        if self._given is None:
            from .streams import GivenStream

            self._given = GivenStream(self._given_failed).open()
            self._given.where("$event") >> self.log
        return self._given

    def give(self, **data: Any) -> None:
        """Push ``data`` into :attr:`given`, from any thread."""
        self.given._push(data)

    queue = give
    """voir's way to give from another thread; here ``give`` is safe from any."""

    def probe(
        self,
        selector: str,
        *,
        raw: bool = False,
        probe_type: str | None = None,
        overridable: bool = False,
        env: dict[str, Any] | None = None,
    ) -> Any:
        """A stream of ``giving`` with one event each time the selector fires.

        ``raw`` gives captures with names instead of bare values; ``probe_type="total"`` gives one
        event when the outermost function ends; ``overridable`` adds ``override`` and ``koverride``.

        Raises:
            UserError: the selector does not parse, or names what the voirfile does not have;
                ``probe_type`` is neither None, ``"immediate"`` nor ``"total"``.
        """
        if probe_type not in (None, "immediate", "total"):
            raise UserError(f"ov.probe: probe_type is 'immediate' or 'total', not {probe_type!r}")
        from .streams import ProbeStream

        stream = ProbeStream()
        self._streams.append(stream)
        self._add(
            selector,
            deliver=stream.deliver,
            env=env,
            raw=raw,
            total=probe_type == "total",
            override=overridable,
        )
        return stream

    # --- the fast ways, besides those of its base ------------------------------------------------

    def learn(
        self,
        of: Any,
        *,
        region: str | None = None,
        phase: str | None = None,
        what: str | None = None,
    ) -> None:
        """Say of all spans of the object ``of``, those so far included, which region or phase they are of.

        For what is only known once an object was called a few times; ``what`` is its name then. A program
        that is to end after some steps ends here where these were enough.
        """
        known = {"region": region, "phase": phase, "what": what}
        self._spans.sites.learn(of, **{k: v for k, v in known.items() if v is not None})
        if self._pacing is not None:
            self._pacing.recount()

    def synchronize(self, function: Callable[[], object]) -> None:
        """Have ``function`` wait until a device is done, where a library hands it steps and does not wait.

        It is called in a run that ends after some steps (``--stop``, ``--max-duration``): after those of
        ``--skip`` and after the last one, which then last until it returns.
        """
        if self._pacing is not None:
            self._pacing.synchronize(lambda: self._guarded("ov.synchronize", function))

    def rank(self, rank: int, world: int, local: int | None = None) -> None:
        """Record which process of how many this one has turned out to be."""
        self._emit("rank", {"rank": rank, "world": world, "local": local})
        self.world = world
        if self._pacing is not None:
            self._pacing.ranked(rank, world)

    def model(self, name: str, parameters: int, trainable: int) -> None:
        """Record of a model that is trained how many weights it has, and how many of them change."""
        self._emit("model", {"name": name, "parameters": parameters, "trainable": trainable})

    def exited(self, pid: int, code: int) -> None:
        """Record how another process of this host ended: its exit code, or minus the deadly signal.

        For a process that starts others and waits for them: no other can know.
        """
        self._emit("exited", {"pid": pid, "code": code})

    def ahead(
        self,
        of: Any = None,
        batches: int | None = None,
        *,
        epochs: int | None = None,
        steps: int | None = None,
    ) -> None:
        """Record what is to come, for the live view: that a pass over the loader of ``of`` (as in
        :meth:`region`) has so many ``batches``; or, at the beginning of an epoch or of the training, how
        many ``epochs`` or ``steps`` a trainer still has to make.
        """
        if batches is not None:
            number = self._spans.sites.objects.number(of)
            self._emit("ahead", {"of": number, "batches": batches})
        if epochs is not None or steps is not None:
            self._emit("ahead", {"epochs": epochs, "steps": steps})

    def batch_functions(self, found: Callable[[Any], Any]) -> None:
        """Call ``found(function)`` with each function of the program that makes the batches of a loop which
        no loader drives, from its first backward on."""
        from .batch_functions import BatchFunctions

        def guarded(function: Any) -> None:
            self._guarded("ov.batch_functions", lambda: found(function))

        batches = BatchFunctions(guarded)
        self._spans.sites.on_site.append(
            lambda site: self._guarded("ov.batch_functions", lambda: batches.note(site))
        )

    def after_import(self, module: str, callback: Callable[[Any], Any]) -> None:
        """Call ``callback(module)`` once the module of that name has been imported."""

        def guarded(found: Any) -> None:
            self._guarded(f"after_import({module!r})", lambda: callback(found))

        self._after_import(module, guarded)

    def override(self, where: Any, function: Callable[..., Any]) -> None:
        """Replace each value that ``where`` takes by ``function(value)``.

        Raises:
            UserError: ``function`` cannot be called.
        """
        if not callable(function):
            raise UserError(
                f"ov.override: what replaces a value is a function, not {function!r:.60}"
            )
        self._request(where, None, function, override=True)

    def __getattr__(self, name: str) -> Any:
        from difflib import get_close_matches

        frame = sys._getframe(1)
        near = get_close_matches(name, [each for each in dir(self) if not each.startswith("_")], 1)
        hint = f"; did you mean ov.{near[0]}?" if near else ""
        text = f"{frame.f_code.co_name}: ov has no attribute {name!r}{hint}"
        raise NoSuchAttribute(f"{frame.f_code.co_filename}:{frame.f_lineno}: {text}")

    # --- internals ---------------------------------------------------------------------------------

    def _request(
        self,
        where: Any,
        variable: str | None = None,
        direct: Callable[[Any], Any] | None = None,
        calls: CallHooks | None = None,
        store: Store | None = None,
        override: bool = False,
    ) -> None:
        how: dict[str, Any] = {
            "direct": direct,
            "calls": calls,
            "store": store,
            "override": override,
        }
        self._add(where, variable=variable, **how)

    def _add(self, where: Any, *, env: Any = None, **how: Any) -> None:
        frame = sys._getframe(1)
        while (frame.f_globals.get("__name__") or "").startswith("injector.") and frame.f_back:
            frame = frame.f_back
        scope = env if env is not None else {**frame.f_globals, **frame.f_locals}
        place = (frame.f_code.co_filename, frame.f_lineno)
        if not (isinstance(where, str) or callable(where) or hasattr(type(where), "__get__")):
            text = (
                f"a place is a selector such as '//train > loss', or a function, not {where!r:.60}"
            )
            raise UserError(f"{place[0]}:{place[1]}: {text}")
        self._install(Probe(where, env=scope, place=place, number=self._next_number, **how))

    def _instrument_failed(self, instrument: Instrument, error: BaseException) -> None:
        if isinstance(error, UserError) and self.phases.run_script.pending and not self.lenient:
            raise _placed(error)  # bad input: the program does not begin
        self._on_error(f"instrument {getattr(instrument, '__name__', instrument)!s}", error)

    def _note_loop_failure(self, error: BaseException) -> None:
        from ..probe.stop import is_stop

        if is_stop(error):
            raise error
        self._on_error("ov.loader", error)

    def _given_failed(self, error: BaseException) -> None:
        """A subscriber raised: the program gave, and is stopped there if it is to be."""
        from ..probe.stop import goes_on, is_stop, request_stop

        if is_stop(error):
            if not goes_on(error):
                request_stop(error, sys._getframe())
            return
        self._on_error("ov.given", error)

    def start(self, instruments: Iterable[tuple[str, Instrument]]) -> None:
        """Call the instruments of the voirfiles, given with the voirfile that defines each."""
        self._schedule.start()
        for layer, instrument in instruments:
            self._schedule.require_for(layer, instrument)

    def end_phase(self, phase: Phase, exception: BaseException | None) -> None:
        """End a phase whose body was not ours to run: the program's own."""
        self._emit("phase", {"name": phase.name})
        self._schedule.end(phase, None, exception)

    def stop_instruments(self, error: BaseException) -> None:
        """Throw what ends them into all instruments that wait."""
        self._schedule.stop(error)

    def let_go(self) -> None:
        """The last phase has ended: keep nothing of the program alive."""
        self._schedule.let_go()

    def renew(self) -> None:
        """In the child of a fork: it measures for itself."""
        self._waits.end()  # until it has a span of its own
        super().renew()
        if self._pacing is not None:
            self._pacing.renew()

    def pace(self, limits: Mapping[str, Any], folder: str | None) -> None:
        """Stop the program after so many steps, or ranks together; before any voirfile asks for some."""
        from ..measure.pacing import Pacing

        self._pacing = Pacing(self._spans, limits, folder, _infers)

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call ``call`` at the end of each step with their number, in a run that stops after some."""
        if self._pacing is not None:
            self._pacing.on_step(call)

    def profile(self, steps: tuple[int, int], folder: str) -> None:
        """Record some steps with torch.profiler; after :meth:`pace`."""
        from ..measure.torch_profile import MODULE, TorchProfile

        if self._pacing is not None:
            profile = TorchProfile(steps, folder, self._emit, self._on_error)
            self._pacing.profile(profile)
            self.after_import(MODULE, profile.watch)

    def goes_on(self) -> bool:
        """Whether this process, which a voirfile wants to stop here, goes on to where all ranks stop."""
        return self._pacing is not None and self._pacing.goes_on(self.end_job)

    def close(self) -> None:
        """Complete the streams: reductions give their result."""
        for stream in self._streams:
            self._guarded("a probe's stream", stream.complete)
        if self._given is not None:
            self._guarded("ov.given", lambda: self._given.__exit__(None, None, None))
        self.close_measures()

    def close_measures(self) -> None:
        """Record what devices still hold, as far as they are done with it, and no more waits."""
        self._waits.end()
        if self._pacing is not None:
            self._guarded("the end of steps", self._pacing.close)
        self._guarded("the end of measuring", self.end_measuring)

    def _guarded(self, name: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            self._on_error(name, error)


def _infers() -> bool:
    """Whether the program's own files, its script and what it has imported, say nothing of training."""
    from ..rewrite.training_loop import may_train

    paths = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    files = {os.path.abspath(path) for path in paths if isinstance(path, str)}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or not os.path.isfile(main) or origin(os.path.abspath(main)) != PROGRAM:
        return False  # a command of a package: what it may do later is in other files than its own
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = tuple(os.path.join(each, "") for each in (package, shipped("voirfiles")))
    own = [path for path in files if origin(path) == PROGRAM and not path.startswith(ours)]
    # Some modules have names of files that do not exist.
    return not may_train(path for path in own if path.endswith(".py") and os.path.isfile(path))


def _placed(error: UserError) -> UserError:
    """``error`` with the line of the voirfile that raised it, unless it names one."""
    import traceback

    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not (frame.f_globals.get("__name__") or "").startswith("injector.")
    ]
    if not places or places[-1][0] in str(error):
        return error
    file, line = places[-1]
    return UserError(f"{file}:{line}: {error}")

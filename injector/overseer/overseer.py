"""The overseer: the object ``ov`` that an instrument receives.

:class:`Overseer` is the surface on which voirfiles work. It inherits what measures
(:class:`injector.measure.measures.Measures`), and passes on what they request elsewhere: instruments to the
schedule of phases (:mod:`.phases`), options to :mod:`.options`, places to probes (:mod:`.probes`), which
``install`` hands to the engine. :class:`injector.overseer.session.Session` drives it.
"""

from __future__ import annotations

import os
import sys
from itertools import count

from ..errors import UserError
from ..measure.studies import StudyMeasures
from ..measure.waits import Waits
from ..mpi import launcher_number
from ..origin import PROGRAM, origin, shipped
from ..probe import stop
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
    """``ov`` has no such attribute. An AttributeError as well, so that ``hasattr`` works."""


class Overseer(StudyMeasures):
    """Phases, options, probes and streams of one process of the program.

    ``phases``, ``require`` and ``run_phase`` drive instruments. ``argparser`` is where voirfiles declare
    options, ``options`` their values. ``probe`` returns a stream of ``giving``; ``value``, ``region``,
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
        """The depth down to which calls of modules are recorded (``--layers``); 0 for none."""
        self.lenient = False
        """Whether the program runs even if a voirfile cannot be used, since it was found and not named."""
        self.end_job: Callable[[], None] = lambda: None
        """Ends all processes of the program: what the event ``stop`` of a voirfile means."""
        self.log = RecordLog(recorder.emit, lambda: self.end_job())
        self.world = launcher_number("WORLD_SIZE") or 1
        """How many processes train together, as far as it is known."""
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
        """Record memory in all regions that are requested from now on (``--memory``)."""
        self._spans.record_memory()

    # --- instruments and phases --------------------------------------------------------------------

    def require(self, *instruments: Instrument) -> Any:
        """Activate instruments, each once. Returns their states: one by itself, several as a list."""
        states = [self._schedule.require(instrument) for instrument in instruments]
        return states[0] if len(states) == 1 else states

    def run_phase(self, phase: Phase) -> Running:
        """Return a context manager whose body is the phase: what waits for it is resumed afterwards."""
        self._emit("phase", {"name": phase.name})
        return self._schedule.run_phase(phase)

    def stop(self, value: object = None) -> NoReturn:
        """End the program here, with success: ``finally`` blocks run, and the exit code is 0."""
        raise StopProgram(value)

    @property
    def stopping(self) -> bool:
        """Whether the program is being ended in this process, by :meth:`stop` or after enough steps."""
        return stop.stopped_by is not None

    def abort(self, error: BaseException) -> NoReturn:
        """End the program by raising ``error`` in it."""
        from voir.phase import OverseerAbort

        raise OverseerAbort(error)

    def tag(self, key: str, value: object) -> None:
        """Give the run a property, as ``--tag`` does. A tag of the command line wins over one of that key.

        Raises UserError for a key that is no word.
        """
        if not isinstance(key, str) or not key.strip() or "=" in key or not key.isprintable():
            raise UserError(f"ov.tag: a key is a word without =, such as 'lr', not {key!r}")
        self._emit("tagged", {key.strip(): str(value)})

    # --- options -----------------------------------------------------------------------------------

    @property
    def argparser(self) -> Any:
        """The parser in which a voirfile declares its options, before the phase ``parse_args``."""
        return self.declared.of(self._schedule.layer)

    @property
    def options(self) -> Any:
        """The values of all options, given or by default; None before the phase ``parse_args`` has ended."""
        values = self._values
        # Voirfiles that declare the same option have a namespace each: the one that asks sees its own.
        if len({id(namespace) for namespace in values.values()}) > 1:
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
        """Read the options that were given, each with its values.

        Raises UserError for an option or a value that is not right.
        """
        # Where no voirfile declares an option, argparse is never imported.
        if self._declared is not None:
            self._values = self._declared.parse(groups)

    # --- streams -----------------------------------------------------------------------------------

    @property
    def given(self) -> Any:
        """The stream of what the program gives with ``give(…)``. Reading it imports ``giving``."""
        if self._given is None:
            from .streams import GivenStream

            self._given = GivenStream(self._given_failed).open()
            self._given.where("$event") >> self.log
        return self._given

    def give(self, **data: Any) -> None:
        """Push ``data`` into :attr:`given`, from any thread."""
        self.given._push(data)

    queue = give
    """voir's way to give from another thread. Here ``give`` itself is safe in any thread."""

    def probe(
        self,
        selector: str,
        *,
        raw: bool = False,
        probe_type: str | None = None,
        overridable: bool = False,
        env: dict[str, Any] | None = None,
    ) -> Any:
        """Return a stream of ``giving`` with one event for each time that the selector fires.

        With ``raw``, events hold captures with names instead of bare values. ``probe_type="total"`` gives one
        event when the outermost function ends. ``overridable`` has ``override`` and ``koverride`` of the
        stream replace the value. ``env`` maps the names in the selector to objects; by default they are those
        that the calling code sees. Raises UserError if the selector does not parse, or names what the
        voirfile does not have, or if ``probe_type`` is neither None, ``"immediate"`` nor ``"total"``.
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

    # --- the fast ways, besides those of the base classes ------------------------------------------

    def learn(
        self,
        of: Any,
        *,
        region: str | None = None,
        phase: str | None = None,
        what: str | None = None,
    ) -> None:
        """Say which region and phase all spans of the object ``of`` are of, those so far included.

        That may be known only after the object has been called a few times. ``what`` is a name for it, an
        empty ``phase`` is none. A program that is to end after some steps ends here if these have been made
        already.
        """
        known = {"region": region, "phase": phase, "what": what}
        self._spans.sites.learn(of, **{k: v or None for k, v in known.items() if v is not None})
        if self._pacing is not None:
            self._pacing.recount()

    def synchronize(self, function: Callable[[], object]) -> None:
        """Have ``function`` called to wait for a device, where a library queues steps and does not wait.

        It is called only in a run that ends after some steps (``--stop``, ``--max-duration``): after the
        steps of ``--skip``, and after the last step. These steps then last until it returns.
        """
        if self._pacing is not None:
            self._pacing.synchronize(lambda: self._guarded("ov.synchronize", function))

    def rank(
        self, rank: int, world: int, local: int | None = None, *, shares_batches: bool = False
    ) -> None:
        """Record that this process has turned out to be ``rank`` of ``world``, and ``local`` on its host.

        ``shares_batches``: other ranks work on the same batches, each with a part of the model. Then no items
        are claimed that no step tells itself: they would be counted once for each of these ranks.
        """
        shares = {"shares_batches": True} if shares_batches else {}
        self._emit("rank", {"rank": rank, "world": world, "local": local, **shares})
        self.world = world
        if self._pacing is not None:
            self._pacing.ranked(rank, world)

    def model(self, name: str, parameters: int, trainable: int) -> None:
        """Record how many weights a model has that is trained, and how many of them are trainable."""
        self._emit("model", {"name": name, "parameters": parameters, "trainable": trainable})

    def exited(self, pid: int, code: int) -> None:
        """Record how another process of this host ended: by its exit code, or minus the deadly signal.

        Only the process that has started it, and waited for its end, can know.
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
        """Record what is to come, for the live view.

        Either that a pass over the loader ``of`` (as in :meth:`region`) has so many ``batches``; or, at the
        beginning of an epoch or of the training, how many ``epochs`` or ``steps`` are left to a trainer.
        """
        if batches is not None:
            number = self._spans.sites.objects.number(of)
            self._emit("ahead", {"of": number, "batches": batches})
        if epochs is not None or steps is not None:
            self._emit("ahead", {"epochs": epochs, "steps": steps})

    def batch_functions(
        self, found: Callable[[Any], Any], drawn: Callable[[Any, Any], Any] = lambda *_: None
    ) -> None:
        """Call ``found(function)`` with each function that makes the batches of a loop without a loader.

        Such functions of the program are found at the first backward of their loop. ``drawn(method, when)``
        is called with the ``__next__`` or ``__getitem__`` of each class of the program's that such a loop may
        draw from; ``when`` is the condition on which a call of it counts (as in :meth:`region`).
        """
        from .batch_functions import BatchFunctions

        where = "ov.batch_functions"
        batches = BatchFunctions(
            lambda function: self._guarded(where, lambda: found(function)),
            lambda method, when: self._guarded(where, lambda: drawn(method, when)),
        )
        self._spans.sites.on_site.append(
            lambda site: self._guarded(where, lambda: batches.note(site))
        )

    def after_import(self, module: str, callback: Callable[[Any], Any]) -> None:
        """Call ``callback(module)`` once the module of that name has been imported, or now if it has been."""

        def guarded(imported: Any) -> None:
            self._guarded(f"after_import({module!r})", lambda: callback(imported))

        self._after_import(module, guarded)

    def override(self, where: Any, function: Callable[..., Any]) -> None:
        """Replace each value that ``where`` takes by what ``function(value)`` returns.

        Raises UserError if ``function`` cannot be called.
        """
        if not callable(function):
            raise UserError(
                f"ov.override: what replaces a value is a function, not {function!r:.60}"
            )
        self._request(where, None, function, override=True)

    def __getattr__(self, name: str) -> Any:
        """Raise NoSuchAttribute, with the line of the voirfile and the nearest name that exists."""
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
        options: dict[str, Any] = {
            "direct": direct,
            "calls": calls,
            "store": store,
            "override": override,
        }
        self._add(where, variable=variable, **options)

    def _add(self, where: Any, *, env: Any = None, **how: Any) -> None:
        """Install a probe at ``where``, which the nearest frame outside of this package has requested.

        Names in a selector are those that this frame sees, unless ``env`` has them.
        """
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
        """Report a mistake of an instrument. Raises bad input, as long as the program has not begun."""
        if isinstance(error, UserError) and self.phases.run_script.pending and not self.lenient:
            raise _placed(error)
        self._on_error(f"instrument {getattr(instrument, '__name__', instrument)!s}", error)

    def _note_loop_failure(self, error: BaseException) -> None:
        """Report what was raised while a loop was recorded; raise what stops the program."""
        from ..probe.stop import is_stop

        if is_stop(error):
            raise error
        self._on_error("ov.loader", error)

    def _given_failed(self, error: BaseException) -> None:
        """Report what a subscriber raised, or stop the program where it gave, if that is what it means."""
        from ..probe.stop import goes_on, is_stop, request_stop

        if is_stop(error):
            if not goes_on(error):
                request_stop(error, sys._getframe())
            return
        self._on_error("ov.given", error)

    def start(self, instruments: Iterable[tuple[str, Instrument]]) -> None:
        """Call instruments, each given with the path of the voirfile that defines it."""
        self._schedule.start()
        for layer, instrument in instruments:
            self._schedule.require_for(layer, instrument)

    def end_phase(self, phase: Phase, exception: BaseException | None) -> None:
        """End a phase whose body was the program's, which ended with ``exception`` if that is not None."""
        self._emit("phase", {"name": phase.name})
        self._schedule.end(phase, None, exception)

    def stop_instruments(self, error: BaseException) -> None:
        """Throw ``error`` into all instruments that wait for a phase."""
        self._schedule.stop(error)

    def let_go(self) -> None:
        """Keep nothing of the program alive, after the last phase."""
        self._schedule.let_go()

    def renew(self) -> None:
        """Begin anew in the child of a fork, which measures for itself."""
        self._waits.end()  # until the child has a span of its own
        super().renew()
        if self._pacing is not None:
            self._pacing.renew()

    def pace(self, limits: Mapping[str, Any], folder: str | None) -> None:
        """Stop the program after some steps, or all ranks at the same step. Call it before any voirfile runs.

        For ``limits`` see :class:`injector.measure.pacing.Pacing`.
        """
        from ..measure.pacing import Pacing

        self._pacing = Pacing(self._spans, limits, folder, _infers)

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call ``call`` at the end of each step with the number of steps, in a run that ends after some."""
        if self._pacing is not None:
            self._pacing.on_step(call)

    def profile(self, steps: tuple[int, int], folder: str) -> None:
        """Record the steps from the first up to the second number with torch.profiler, after :meth:`pace`."""
        from ..measure.torch_profile import MODULE, TorchProfile

        if self._pacing is not None:
            profile = TorchProfile(steps, folder, self._emit, self._on_error)
            self._pacing.profile(profile)
            self.after_import(MODULE, profile.watch)

    def goes_on(self) -> bool:
        """Whether this process, which a voirfile wants to stop here, goes on until all ranks stop."""
        return self._pacing is not None and self._pacing.goes_on(self.end_job)

    def close(self) -> None:
        """Complete the streams, so that reductions give their results, and end measuring."""
        for stream in self._streams:
            self._guarded("a probe's stream", stream.complete)
        if self._given is not None:
            self._guarded("ov.given", lambda: self._given.__exit__(None, None, None))
        self.close_measures()

    def close_measures(self) -> None:
        """Record what devices still hold, as far as they are done with it, and nothing more."""
        self._waits.end()
        if self._pacing is not None:
            self._guarded("the end of steps", self._pacing.close)
        self._guarded("the end of measuring", self.end_measuring)

    def _guarded(self, name: str, action: Callable[[], Any]) -> None:
        """Call ``action``, and report what it raises as a mistake of ``name``."""
        try:
            action()
        except Exception as error:
            self._on_error(name, error)


def _infers() -> bool:
    """Whether nothing in the program's own files (its script, and what it has imported) may train."""
    from ..rewrite.training_loop import may_train

    paths = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    files = {os.path.abspath(path) for path in paths if isinstance(path, str)}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    # What the command of a package may do later is in files that are not the program's.
    if main is None or not os.path.isfile(main) or origin(os.path.abspath(main)) != PROGRAM:
        return False
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = tuple(os.path.join(folder, "") for folder in (package, shipped("voirfiles")))
    own = [path for path in files if origin(path) == PROGRAM and not path.startswith(ours)]
    # Some modules have names of files that do not exist.
    return not may_train(path for path in own if path.endswith(".py") and os.path.isfile(path))


def _placed(error: UserError) -> UserError:
    """Return ``error`` with the line of the voirfile that raised it, unless its text has one."""
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

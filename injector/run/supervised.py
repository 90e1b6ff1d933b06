"""One program under ``inject run``: it is started, supervised to the end of all its processes, collected and
reported.

While the program runs, a thread imports what the report will need, so that the report follows at once.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import start_new_thread
from importlib import import_module

from injector.bus.inbox import Inbox
from injector.launch import environment, supervisor
from injector.launch.command import VALUED, Command
from injector.limits import FLAGS
from injector.run.program import environment_of, path_and_argv
from injector.run.sidecars import Sidecars
from injector.store.place import Place
from injector.voirfiles import shipped

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from injector.analysis.columns import RecordedProcess
    from injector.analysis.summary import Summary
    from injector.bus.collector import FinishedRun
    from injector.run.step_tasks import StepTask
    from injector.store.folder import Run
    from injector.voirfiles import Shipped

SOON = 0.1
"""Seconds until the report's modules are imported if the program has one core, which it needs to start."""
LATER = 1.0
"""Seconds until the first look at whether the program trains, and between two looks."""
USAGE = 2
"""The exit code of programs that were given an option they do not know."""
LARGEST = 2_000_000
"""Bytes of a program's text that are searched for a loop."""
STRICT = 70
"""The exit code of ``inject`` under ``--strict`` if something of ours failed."""


class SupervisedRun:
    """One run: its command, its folder, and what is known of its program."""

    def __init__(
        self,
        command: Command,
        voirfiles: list[str],
        place: Place,
        problems: list[str],
        task: StepTask | None = None,
    ) -> None:
        self.command = command
        self.task = task
        self.moved = 0.0 if task is None else task.clock.moved
        """Seconds to add to this host's clock, in what is recorded."""
        self.voirfiles = voirfiles
        self.place = place
        self.folder = place.path
        self.problems = [*place.problems, *problems]
        self.quiet = "--quiet" in command.flags
        self.git: Mapping[str, Any] | None = None
        self.sampling = 0
        self.sidecars: Sidecars | None = None
        self.began_line = False
        """Whether what we print begins on a line of its own, below what the program printed."""
        foreign = foreign_package()
        if foreign and not self.quiet:
            print(f"inject: {foreign}", file=sys.stderr, flush=True)

    def exit_code(self) -> int:
        """Run the program and return the exit code of ``inject run``.

        If a signal ended the program, this process ends by the same signal.
        """
        path, argv = path_and_argv(self.command)
        try:
            ended = self.run(path, argv, self.folder)
        except OSError as error:
            print(f"inject: {argv[0]}: {error.strerror}", file=sys.stderr)
            self.discard()
            missing = isinstance(error, FileNotFoundError)
            return supervisor.NOT_FOUND if missing else supervisor.CANNOT_EXECUTE
        # Python could not begin with the program: it printed why.
        if self.folder and os.path.isdir(environment.refusal(self.folder, ended.pid)):
            self.discard()
            failed = False
        elif self.folder and self.task is not None and self.task.follows:
            self.task.ended(self.folder, ended.code, self.problems)
            self.say(*self.problems)
            failed = bool(self.problems)
        else:
            failed = self.record(self.folder, ended)
            if self.sidecars is not None:
                sentences, not_sent = self.sidecars.end_trackers()
                self.say(*sentences)
                failed = failed or not_sent
        if failed and "--strict" in self.command.flags:
            return STRICT
        if ended.timed_out:
            return supervisor.TIMED_OUT
        return supervisor.die(-ended.code) if ended.code < 0 else ended.code

    def discard(self) -> None:
        """Remove the run folder, as no program was started. Tasks of a step share it: task 0 removes it."""
        if self.folder and self.task is not None and self.task.follows:
            self.task.ended(self.folder, supervisor.CANNOT_EXECUTE)
            return
        if self.folder and self.task is not None and self.task.rank == 0:
            self.task.wait_for_others(self.folder)
        self.place.discard()

    def run(self, path: str, argv: list[str], folder: str | None) -> supervisor.Ended:
        """Run the program until nothing of it is left, and the sidecars with it. Raises OSError."""
        follows = self.task is not None and self.task.follows
        sidecars = self.sidecars = Sidecars(
            self.command, folder, self.problems, follows, self.moved
        )
        later = [
            (_import_delay(), self.import_modules),
            (LATER, self.import_analysis),
            *sidecars.later(),
        ]
        if folder and (task := self.task) is not None and follows:
            later.append((task.sign_period, lambda: task.sign(folder)))
            if task.clock.asks_again:
                later.append((task.clock.ask_period, lambda: task.clock.ask_again(folder)))
        if self.task is not None and self.task.clock.tell_the_time is not None:
            later.insert(0, (0.0, self.task.clock.tell_the_time))
        inbox = _new_inbox(folder, self.moved)
        options = self.command.limits
        environ = environment_of(
            self.command, self.voirfiles, self.acting_voirfiles(), folder, inbox, self.moved
        )
        limits = supervisor.Limits(
            options.get("--timeout"), options.get("--grace", supervisor.GRACE)
        )
        try:
            return supervisor.run(
                path, argv, environ, sidecars.start, limits, sidecars.apart, later, inbox
            )
        finally:
            self.git, self.sampling = sidecars.end(), sidecars.sampling

    def acting_voirfiles(self) -> list[Shipped]:
        """The shipped voirfiles that act by themselves. An installation without them is a problem."""
        try:
            return shipped() if self.command.automatic else []
        except OSError as error:
            self.problems.append(f"no shipped voirfile acts: {error.filename}: {error.strerror}")
            return []

    def import_modules(self) -> None:
        """Import what collects and reports the run, while the program runs.

        A thread does it, so that the end of the program, a figure of the report, is noted when it happens.
        Two threads cannot wait for each other's imports, as no two modules import each other.
        """
        start_new_thread(self._import_modules, ())

    def _import_modules(self) -> None:
        try:
            more = () if self.quiet else ("injector.analysis.summary", "injector.report.terminal")
            _import("injector.bus.collector", *more)
        except Exception as error:
            self.problems.append(f"no record: {type(error).__name__}: {error}")

    def import_analysis(self) -> bool:
        """Import what a report of steps needs. True, to be called again, if there are no spans yet."""
        try:
            from injector.store.spans import has_spans

            if self.folder is not None and not has_spans(self.folder):
                return True
            # `columns` is the first module that imports NumPy: it does so without threads.
            names = ("injector.analysis.columns", "injector.analysis.profiling")
            _import("injector.analysis.summary", *names)
        except Exception:
            pass  # the report fails on the same import, and names the error
        return False

    def record(self, folder: str | None, ended: supervisor.Ended) -> bool:
        """Collect the run and report it. Returns whether something of ours failed."""
        if folder is None:
            self.say(*self.problems)
            return True
        from injector.bus.collector import collect
        from injector.bus.run_warnings import HARMLESS

        info = collect(folder, self.finished(folder, ended))
        self.say(*self.end_sentences(ended))
        if "--flops" in self.command.flags:
            from injector.run.flops import add_flops

            self.say(*add_flops(folder, info, self.command, ended))
        self.report(folder, info)
        return any(warning["kind"] not in HARMLESS for warning in info["warnings"])

    def finished(self, folder: str, ended: supervisor.Ended) -> FinishedRun:
        """What is known of the run that has ended; of rank 0 of several tasks, once all have."""
        from injector.bus.collector import FinishedRun

        command, code, clocks = self.command, ended.code, list[str]()
        if self.task is not None and self.task.rank == 0:
            codes, problems = self.task.wait_for_others(folder, ended.interrupted is not None)
            self.problems += problems
            clocks = self.task.clock_sentences(folder)
            code = code or next(filter(None, codes.values()), 0)
        kinds = {"module": "module", "function": "module", "command": "command"}
        limits: dict[str, Any] = {
            name[2:].replace("-", "_"): n for name, n in command.limits.items()
        }
        return FinishedRun(
            command=["inject", "run", *sys.argv[2:]],
            name=command.name,
            started=ended.started,
            ended=ended.ended,
            exit=code,
            program={kinds.get(command.kind, "script"): command.target},
            voirfiles=self.voirfiles,
            problems=self.problems,
            remarks=[*command.notes, *clocks, *self.loop_hints(folder)],
            limits={**limits, "phase": command.phase} if command.phase else limits,
            sampling=self.sampling,
            tags=command.tags,
            price=command.price,
            profiled=command.profiled,
            git=self.git,
            timed_out=ended.timed_out,
            stopped=ended.stopped,
            outlived=ended.outlived,
            peak_rss=ended.peak_rss,
            exits=ended.exits,
            interrupted=ended.interrupted,
        )

    def loop_hints(self, folder: str) -> list[str]:
        """For a script without spans: sentences on the loop that a voirfile could name."""
        if self.voirfiles or self.command.kind != "script":
            return []
        from injector.store.spans import has_spans

        if has_spans(folder) or not _may_have_loop(self.command.target):
            return []
        from injector.rewrite.training_loop import how_to_measure

        return how_to_measure(self.command.target)

    def end_sentences(self, ended: supervisor.Ended) -> list[str]:
        """Sentences on what we ended, and on options of ours that the program was given by mistake."""
        lines = [
            f"a process outlived the program, and was ended: {words}" for words in ended.outlived
        ]
        if ended.timed_out:
            lines.append(f"ended by --timeout after {ended.ended - ended.started:.1f} s")
        words = {word.partition("=")[0] for word in self.command.arguments} - {"--help"}
        ours = sorted(words.intersection((*VALUED, *FLAGS)))
        if ended.code == USAGE and ours:
            lines.append(
                f"{', '.join(ours)} went to {self.command.target}, which ended with exit code {USAGE}: "
                "options of inject stand before it"
            )
        return lines

    def report(self, folder: str, info: dict[str, Any]) -> None:
        """Print the report. Its analysis also writes figures to run.json, if there are spans or ranks."""
        if self.quiet and not _has_figures(folder, info):
            return
        try:
            # Without run.json the report knows no warnings.
            if not os.path.exists(os.path.join(folder, "run.json")):
                self.say(*(warning["text"] for warning in info["warnings"]))
            from injector.store.folder import open_run

            run = open_run(folder)
            if run.info and run.data_files:
                summary, details = self.summary(run)
            else:  # the disk is full: the run is collected in a temporary folder
                from injector.bus.readable import collected

                with collected(run, check=False) as readable:
                    summary, details = self.summary(readable)
            if not self.quiet:
                from injector.report.output import show
                from injector.report.terminal import render

                self.begin_own_line()
                show(lambda: render(summary, details), sys.stderr)
        except Exception as error:
            self.say(*self.problems, f"no report: {type(error).__name__}: {error}")

    def summary(self, run: Run) -> tuple[Summary, list[RecordedProcess]]:
        """The summary of ``run``, and its processes, which only ``--verbose`` shows."""
        from injector.analysis.summary import summarise

        summary = summarise(run, keep=True)
        if "--verbose" not in self.command.flags:
            return summary, []
        from injector.analysis.columns import sources

        return summary, sources(run)

    def begin_own_line(self) -> None:
        """End the program's last line before our first: a progress bar ends without a newline."""
        if not self.began_line:
            self.began_line = True
            sys.stderr.write("\n")

    def say(self, *lines: str) -> None:
        """Print ``lines`` to stderr, unless ``--quiet``."""
        if not self.quiet:
            for line in lines:
                self.begin_own_line()
                print(f"inject: {line}", file=sys.stderr)


def _has_figures(folder: str, info: dict[str, Any]) -> bool:
    from injector.store.spans import has_spans

    return has_spans(folder) or any(each.get("rank") is not None for each in info["processes"])


def _may_have_loop(file: str) -> bool:
    """Whether a program's text may hold a training loop. Spares most others the imports of a real search."""
    try:
        with open(file, "rb") as source:
            text = source.read(LARGEST)
    except OSError:
        return False
    return any(word in text for word in (b"for", b"while")) and any(sign in text for sign in b"*/@")


def _import(*names: str) -> None:
    """Import modules, and keep the garbage collector from them: what they allocate stays.

    It would look through all of it time and again, a twentieth of what this process costs.
    """
    gc.disable()
    try:
        for name in names:
            import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _import_delay() -> float:
    """Seconds before modules are imported: none, unless the program would have to share its only core."""
    from injector.bus.surroundings import usable_cpus  # the sidecars need this module at once, too

    return 0.0 if (usable_cpus() or 1) > 1 else SOON


def _new_inbox(folder: str | None, moved: float) -> Inbox | None:
    """Where the program's processes send records; None without a run folder or a free file descriptor."""
    try:
        return None if folder is None else Inbox(folder, moved)
    except OSError:
        return None


def foreign_package() -> str | None:
    """A warning if a package named ``injector`` (dependency injection) is installed over this one."""
    home = os.path.dirname(environment.PACKAGE)
    try:
        names = os.listdir(home)
    except OSError:
        return None
    for name in names:
        if name.startswith("injector-") and name.endswith((".dist-info", ".egg-info")):
            return (
                f"the package {name.rpartition('.')[0]!r} is installed in {home} and also owns the "
                "folder 'injector': each overwrites the other's files; use separate environments"
            )
    return None

"""One program under ``inject run``: started, looked after until nothing is left of it, recorded, reported."""

from __future__ import annotations

import os
import sys
import time
from _thread import start_new_thread
from importlib import import_module

from injector.bus.inbox import Inbox
from injector.cli.sidecars import Sidecars
from injector.launch import environment, supervisor
from injector.launch.command import FLAGS, VALUED, Command
from injector.monitor.presence import accelerator
from injector.store.place import Place
from injector.voirfiles import automatic, methods

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from injector.analysis.columns import RecordedProcess
    from injector.analysis.summary import Summary
    from injector.cli.step_tasks import StepTask
    from injector.store.folder import Run

SOON, LATER = 0.1, 1.0
"""Seconds after which a program on one core is taken for one that is not over at once, and any is looked
at for training."""
USAGE = 2
"""How programs end that do not know an option."""
LARGEST = 2_000_000
"""Bytes of a program that are looked into."""
STRICT = 70
"""Our exit code under ``--strict`` when something of ours went wrong."""


class SupervisedRun:
    """One run: its folder, its program, its record."""

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
        self.moved = 0.0 if task is None else task.moved
        """Seconds to add to this host's clock, in what is recorded."""
        self.voirfiles = voirfiles
        self.place = place
        self.folder = place.path
        self.problems = [*place.problems, *problems]
        self.quiet = "--quiet" in command.flags
        self.git: Mapping[str, Any] | None = None
        self.sampling = 0
        self.sidecars: Sidecars | None = None
        self.apart = False
        """Whether what we print stands apart from what the program printed."""
        foreign = foreign_package()
        if foreign and not self.quiet:
            print(f"inject: {foreign}", file=sys.stderr, flush=True)

    def code(self) -> int:
        path, argv = program_of(self.command)
        try:
            ended = self.run(path, argv, self.folder)
        except OSError as error:
            print(f"inject: {argv[0]}: {error.strerror}", file=sys.stderr)
            self.discard()
            missing = isinstance(error, FileNotFoundError)
            return supervisor.NOT_FOUND if missing else supervisor.CANNOT_EXECUTE
        if self.folder and os.path.isdir(environment.refusal(self.folder, ended.pid)):
            self.discard()
            wrong = False
        elif self.folder and self.task is not None and self.task.follows:
            self.task.ended(self.folder, ended.code, self.problems)
            self.say(*self.problems)
            wrong = bool(self.problems)
        else:
            wrong = self.record(self.folder, ended)
            self.say(*(self.sidecars.tracked() if self.sidecars else ()))
        if wrong and "--strict" in self.command.flags:
            return STRICT
        if ended.timed_out:
            return supervisor.TIMED_OUT
        return supervisor.die(-ended.code) if ended.code < 0 else ended.code

    def discard(self) -> None:
        """There was no program: the folder goes, but for one that tasks of a step share."""
        if self.folder and self.task is not None and self.task.follows:
            self.task.ended(self.folder, supervisor.CANNOT_EXECUTE)
            return
        if self.folder and self.task is not None and self.task.rank == 0:
            self.task.others(self.folder)
        self.place.discard()

    def run(self, path: str, argv: list[str], folder: str | None) -> supervisor.Ended:
        """The program, from its start until nothing is left of it."""
        follows = self.task is not None and self.task.follows
        sidecars = self.sidecars = Sidecars(
            self.command, folder, self.problems, follows, self.moved
        )
        later = [(_soon(), self.prepare), (LATER, self.prepare_analysis), *sidecars.later()]
        if folder and (task := self.task) is not None and follows:
            later.append((task.period, lambda: task.sign(folder)))
            if task.asks_again:
                later.append((task.asking, lambda: task.ask_again(folder)))
        if self.task is not None and self.task.tell_the_time is not None:
            later.insert(0, (0.0, self.task.tell_the_time))
        inbox = _inbox(folder, self.moved)
        environ, given = self.environ(folder, inbox), self.command.limits
        limits = supervisor.Limits(given.get("--timeout"), given.get("--grace", supervisor.GRACE))
        try:
            return supervisor.run(
                path, argv, environ, sidecars.start, limits, sidecars.apart, later, inbox
            )
        finally:
            self.git, self.sampling = sidecars.end(), sidecars.sampling

    def prepare(self) -> None:
        """Import what comes after the program while the program runs.

        In a thread: when the program ends is a figure of the report, and is noted as it happens. No two
        threads can wait for each other's imports, as no modules import each other.
        """
        start_new_thread(self.import_record, ())

    def import_record(self) -> None:
        try:
            import_module("injector.bus.collector")
            if not self.quiet:
                import_module("injector.analysis.summary")
                import_module("injector.report.terminal")
        except Exception as error:
            self.problems.append(f"no record: {type(error).__name__}: {error}")

    def prepare_analysis(self) -> bool:
        """Import what a report of training steps is made with, numpy above all; True: not yet."""
        try:
            from injector.store.spans import has_spans

            if self.folder is not None and not has_spans(self.folder):
                return True
            import_module("injector.analysis.summary")
            import_module("injector.analysis.columns")  # first: it loads NumPy without threads
            import_module("injector.analysis.profiling")
        except Exception:
            pass  # the report will say so, if it needs it
        return False

    def environ(self, folder: str | None, inbox: Inbox | None) -> dict[str, str]:
        """The environment of the program's process, as it is until that process has booted."""
        command, environ = self.command, dict(os.environ)
        original = environ.get("PYTHONPATH")
        settings = {
            "home": os.path.dirname(environment.PACKAGE),
            "run": folder,
            "inbox": None if inbox is None else inbox.address,
            "clock": {"clock_moved": self.moved} if self.moved else {},
            "voirfiles": self.voirfiles,
            "found": command.named() is None,
            "options": command.options,
            "configs": [os.path.abspath(path) for path in command.configs],
            "workers": "--workers" in command.flags,
            "strict": "--strict" in command.flags,
            "pythonpath": original,
            "main": command.name,
            "pace": self.pace(),
            "torch_profile": command.profiled and list(command.profiled),
            "sample": "--sample" in command.flags,
            "auto": automatic(layers=command.layers > 0) if command.automatic else {},
            "layers": command.layers,
            "memory": "--memory" in command.flags,
            "methods": self.methods(environ),
        }
        environ.update(environment.variables(environment.encode(settings), original))
        return environ

    def methods(self, environ: dict[str, str]) -> dict[str, list[str]]:
        """The methods whose calls shipped voirfiles may ask for: anywhere, and in ranks."""
        if not self.command.automatic:
            return {}
        of_devices, of_ranks, joint = methods()
        of_devices = of_devices if accelerator(environ) else []
        return {"any": of_devices, "ranks": of_ranks, "joint": joint}

    def pace(self) -> dict[str, float | str | None] | None:
        """When the program is to stop by itself, if it is: steps, and a moment in nanoseconds."""
        limits = self.command.limits
        stop, duration = limits.get("--stop"), limits.get("--max-duration")
        if stop is None and duration is None:
            return None
        until = None if duration is None else time.monotonic_ns() + round(duration * 1e9)
        phase = self.command.phase
        return {"skip": limits.get("--skip", 0), "stop": stop, "until": until, "phase": phase}

    def record(self, folder: str | None, ended: supervisor.Ended) -> bool:
        """Collect and report what happened; whether something of ours went wrong."""
        if folder is None:
            self.say(*self.problems)
            return True
        from injector.bus.collector import FinishedRun, collect
        from injector.bus.tally import HARMLESS

        kinds = {"module": "module", "function": "module", "command": "command"}
        command, code, clocks = self.command, ended.code, list[str]()
        if self.task is not None and self.task.rank == 0:
            codes, about = self.task.others(folder, ended.interrupted is not None)
            self.problems += about
            clocks = self.task.clocks(folder)
            code = code or next(filter(None, codes.values()), 0)
        run = FinishedRun(
            command=["inject", "run", *sys.argv[2:]],
            name=command.name,
            started=ended.started,
            ended=ended.ended,
            exit=code,
            program={kinds.get(command.kind, "script"): command.target},
            voirfiles=self.voirfiles,
            problems=self.problems,
            remarks=[*command.notes, *clocks, *self.unnamed_loop(folder)],
            limits={
                **{name[2:].replace("-", "_"): n for name, n in command.limits.items()},
                **({"phase": command.phase} if command.phase else {}),
            },
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
        info = collect(folder, run)
        self.say(*self.about_its_end(ended))
        if "--flops" in command.flags:
            self.count_flops(folder, info, ended)
        self.report(folder, info)
        return any(warning["kind"] not in HARMLESS for warning in info["warnings"])

    def count_flops(self, folder: str, info: dict[str, Any], ended: supervisor.Ended) -> None:
        """Run the program once more, after all of the measured run is on disk; what failed is not tried."""
        if ended.code or ended.timed_out or ended.interrupted:
            found: dict[str, Any] = {
                "why": "the program did not end in order, and was not run once more"
            }
        else:
            try:
                from injector.cli.flops import flops

                took = ended.ended - ended.started
                found = flops(self.command, _python_flags(), took, info)
            except Exception as error:
                found = {"why": f"{type(error).__name__}: {error}"}
        info["flops"] = found
        try:
            from injector.store.run_json import write_info

            kept = {key: value for key, value in info.items() if key != "schema"}
            write_info(folder, kept)
        except OSError as error:
            self.say(f"no FLOPs: {error.strerror}")

    def unnamed_loop(self, folder: str) -> list[str]:
        """Of a script that nothing was recorded of: what a voirfile would have to name."""
        if self.voirfiles or self.command.kind != "script":
            return []
        from injector.store.spans import has_spans

        if has_spans(folder) or not _may_have_loop(self.command.target):
            return []
        from injector.rewrite.training_loop import how_to_measure

        return how_to_measure(self.command.target)

    def about_its_end(self, ended: supervisor.Ended) -> list[str]:
        """What we did to end it."""
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
        """Print the report; keep its figures in run.json, which has none without spans or ranks."""
        if self.quiet and not _has_figures(folder, info):
            return
        try:
            if not os.path.exists(os.path.join(folder, "run.json")):  # the report knows of nothing
                self.say(*(warning["text"] for warning in info["warnings"]))
            from injector.store.folder import open_run

            run = open_run(folder)
            if run.info and run.data_files:
                summary, details = self.summary(run)
            else:  # the disk is full: collect it elsewhere
                from injector.bus.readable import collected

                with collected(run, check=False) as readable:
                    summary, details = self.summary(readable)
            if not self.quiet:
                from injector.report.output import show
                from injector.report.terminal import render

                self.begin_line()
                show(lambda: render(summary, details), sys.stderr)
        except Exception as error:
            self.say(*self.problems, f"no report: {type(error).__name__}: {error}")

    def summary(self, run: Run) -> tuple[Summary, list[RecordedProcess]]:
        """What the report says of ``run``, and of its processes where it says more than else."""
        from injector.analysis.summary import summarise

        found = summarise(run, keep=True)
        if "--verbose" not in self.command.flags:
            return found, []
        from injector.analysis.columns import sources

        return found, sources(run)

    def begin_line(self) -> None:
        """Leave the line to which the program wrote last, once: a progress bar ends in no newline."""
        if not self.apart:
            self.apart = True
            sys.stderr.write("\n")

    def say(self, *lines: str) -> None:
        if not self.quiet:
            for line in lines:
                self.begin_line()
                print(f"inject: {line}", file=sys.stderr)


def _has_figures(folder: str, info: dict[str, Any]) -> bool:
    from injector.store.spans import has_spans

    return has_spans(folder) or any(each.get("rank") is not None for each in info["processes"])


def _may_have_loop(file: str) -> bool:
    """Whether the text of a program may have a loop that trains: to look for it takes ``ast`` and ``re``."""
    try:
        with open(file, "rb") as source:
            text = source.read(LARGEST)
    except OSError:
        return False
    return any(word in text for word in (b"for", b"while")) and any(sign in text for sign in b"*/@")


def _soon() -> float:
    """Seconds after which we may use a core: at once, unless the program, which starts, has no other."""
    from injector.bus.surroundings import usable_cpus  # which the sidecars need at once, too

    return 0.0 if (usable_cpus() or 1) > 1 else SOON


def _inbox(folder: str | None, moved: float) -> Inbox | None:
    """Where processes of the program send records; None without a record, or descriptors."""
    try:
        return None if folder is None else Inbox(folder, moved)
    except OSError:
        return None


def program_of(command: Command) -> tuple[str, list[str]]:
    """The file to execute and the words it is given."""
    if command.kind == "command":
        found = environment.find_command(command.target)
        return found or command.target, command.words()
    words = command.words()
    if command.kind == "stdin" and not os.isatty(0):
        words[0] = environment.STDIN
    # The interpreter as it was called, which is what the program finds in ``sys.orig_argv``.
    name = sys.orig_argv[0] if sys.orig_argv else sys.executable
    return sys.executable, [name, *_python_flags(), *words]


def _python_flags() -> list[str]:
    """Options of our own interpreter (``python -W error -m injector …``) are the program's too."""
    count = len(sys.argv) - 1
    words = sys.orig_argv[1 : len(sys.orig_argv) - count]
    if sys.orig_argv[len(sys.orig_argv) - count :] != sys.argv[1:] or not words:
        return []
    if words[-2:-1] in (["-m"], ["-c"]):
        return words[:-2]
    return words[:-1]


def foreign_package() -> str | None:
    """A plain word about a dependency-injection package that installs a folder of our name."""
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

"""What wakes up in the program's process before the program does.

Where there is nothing to probe, nothing more of ours is imported: only the ways to start children are
watched.
"""

from __future__ import annotations

import builtins
import gc
import os
import sys
from _weakref import ref

from injector import gc_padding
from injector.launch import environment
from injector.launch.children import Children
from injector.origin import PROGRAM, origin
from injector.rewrite.method_calls import MethodCalls

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from injector.overseer.session import Session
    from injector.rewrite.engine import Engine

BAD_INPUT = 2
USER = "injector.measure.own"
"""Imported when a program names its own regions."""
VOIR = "voir"
"""Imported when a program sends records itself."""


class ProgramProcess:
    """This process of the program, overseen where the run has voirfiles."""

    def __init__(self, config: dict[str, Any], children: Children) -> None:
        self.config = config
        self.children = children
        self.owner = os.getpid()
        self.native = set(sys.modules)
        self.main: CodeType | None = None
        self.engine: Engine | None = None
        self.session: Session | None = None
        self.ended = False
        self.began = False
        """Whether the program was about to be called, as far as we call it."""
        self.first = ref(sys.modules["__main__"])  # weakly: its end is what destructors see
        self.module = environment.module_named(sys.orig_argv[1:])
        self.spare: list[dict[str, object]] = []
        methods = config.get("methods") or {}
        config["methods"] = [*methods.get("any", ())]
        if environment.is_one_of_several():
            config["methods"] += methods.get("ranks", ())
        joint = methods.get("joint", ())
        config["methods"] += joint
        self.method_calls = MethodCalls(config["methods"], config.get("auto", ()), joint)
        if self.module:
            self.method_calls.packages.add(self.module.partition(".")[0])

    def phases(self) -> int | None:
        """All that comes before the program; an exit code if the program must not start.

        A mistake of our own is printed, and the program starts without us.
        """
        if self.session is None:
            return None
        from injector.errors import UserError

        try:
            if self.config.get("memory"):
                self.session.overseer.record_memory()
            self.session.begin()
            self.session.load()
            self.session.expect(self.config.get("auto") or {}, self.config.get("layers") or 0)
        except UserError as error:
            say(str(error))
            return BAD_INPUT
        except Exception as error:
            say(f"not probing: {type(error).__name__}: {error}")
        except BaseException as error:
            if self.session.stop_before(error):
                self.began = True
                return 0
            if not isinstance(error, SystemExit):
                raise
            # Of an option parser.
            return error.code if isinstance(error.code, int) else BAD_INPUT
        return None

    def phases_early(self, entry: str | None) -> None:
        """The phases in a process whose code cannot be caught: ``-c``, compiled scripts, prompts.

        ``entry`` is what the program will have as ``sys.path[0]``, which is not there yet.
        """
        self.open()
        if entry is not None:
            sys.path.insert(0, entry)
        try:
            code = self.phases()
        finally:
            if entry is not None and entry in sys.path:
                sys.path.remove(entry)
        if code is not None:
            sys.stderr.flush()
            os._exit(code)  # site would make a fatal error of SystemExit
        self.began = True

    def open(self, folder: str = "", code: CodeType | None = None) -> None:
        """Import what the phases need, where there is something to probe.

        Where only libraries are to be probed that wait until the program imports one; but not if a
        neighbour of the program in ``folder`` could then be taken for what we need, nor if the program
        itself (``code``, where it is known) calls one of the methods that wait.
        """
        if self.session is not None:
            return
        if code is not None:
            self.belongs(code)
        try:
            if self.config["voirfiles"] or self.config["configs"]:
                self._open()
                return
            from injector.launch import library_watch, shadows

            calls = code is not None and self.method_calls.asks(code, "__main__")
            if calls or (folder and shadows.names(folder)):
                self._open()
            else:
                libraries = {*self.config.get("auto", ()), USER, VOIR}
                library_watch.LibraryWatch(libraries, self.method_calls, self.open_now).start()
        except Exception as error:
            say(f"not probing: {type(error).__name__}: {error}")

    def belongs(self, code: CodeType) -> None:
        """Of a package's own command, the packages that it imports are the program."""
        if origin(os.path.abspath(code.co_filename)) != PROGRAM:
            imported = {name.partition(".")[0] for name in code.co_names}
            self.method_calls.packages |= (
                imported - sys.stdlib_module_names - self.method_calls.libraries
            )

    def open_now(self) -> None:
        """In the middle of the program: it is about to import a library that is to be probed."""
        known = set(sys.path_importer_cache)
        with gc_padding.UncountedAllocations():
            try:
                self._open()
            except Exception as error:
                say(f"not probing: {type(error).__name__}: {error}")
            if self.engine is not None:
                self.engine.main_met = True
            self.phases()
        for entry in set(sys.path_importer_cache) - known:
            del sys.path_importer_cache[entry]

    def _open(self) -> None:
        from injector.bus.writer import Writer
        from injector.overseer.session import Session
        from injector.rewrite.engine import Engine

        # Nothing is reported before there is a session: nothing has been requested.
        engine = self.engine = Engine(lambda found: session.report(found), self.method_calls)
        engine.handler_files.update(self.config["voirfiles"])
        writer = Writer(
            self.config["run"], {"argv": list(sys.orig_argv), **self.config.get("clock", {})}
        )
        session = self.session = Session(self.config, engine, writer)
        engine.install()
        self.owner = os.getpid()
        self.spare = self.spare or spare_builtins()
        os.register_at_fork(after_in_child=self.session.after_fork)
        self.children.on_exec = self.before_exec

    def code(self, source: bytes, filename: str, plain: CodeType) -> CodeType:
        """The script's code: ``plain``, or rewritten where a probe names it."""
        self.main = self.rewritten(source, plain, filename)
        return self.main

    def rewritten(self, source: bytes, plain: CodeType, filename: str = "") -> CodeType:
        """``plain`` as it is, or rewritten where a probe names it."""
        engine = self.engine
        if engine is not None and ("__main__" in engine.names or engine.asks(plain, "__main__")):
            held = Held()
            try:
                with held:  # its warnings were given when it was compiled as it is
                    return engine.main_code(source, filename or plain.co_filename, plain)
            except Exception as error:
                say(f"the program is not probed: {type(error).__name__}: {error}")
        return plain

    def expect_another(self) -> None:
        """What is started may run a program of its own: a file that its arguments name."""
        engine = self.engine
        if engine is None or "__main__" not in engine.names:
            return
        from injector.launch import runners

        files = runners.named(sys.argv[1:])
        if files:
            engine.await_main()
            runners.Runner(files, self.rewritten).wait()

    def leave(self, code: int | None = None) -> None:
        """The process is about to end, with the exit code ``code`` if that is known."""
        if not self.began and os.getpid() == self.owner:
            self.refuse()
        if self.session is not None and not self.ended:
            self.ended = True
            if self.engine is not None:
                self.engine.settle_main()
            if os.getpid() == self.owner:
                self.session.finish(self.uncaught(), code)
            else:
                self.session.leave_fork(code)

    def refuse(self) -> None:
        """Say so where the process ends before the program has begun.

        runpy, once it has found what to run, puts its spec into the first ``__main__``; who clears that
        or puts another in its place has been run.
        """
        first = self.first()
        if first is not None and vars(first).get("__spec__", 0) is None and self.config["run"]:
            try:
                os.mkdir(environment.refusal(self.config["run"], self.owner))
            except OSError:  # the report of a run without a record, then
                pass

    def before_exec(self) -> None:
        """Perhaps the last words: a process that becomes another program runs no exit functions."""
        if self.session is not None:
            self.session.count(always=os.getpid() == self.owner)

    def before_exit(self, words: tuple[Any, ...], _: dict[str, Any]) -> tuple[Any, object]:
        """``os._exit`` runs no exit functions."""
        self.leave(words[0] & 0xFF if words and isinstance(words[0], int) else None)
        return words, None

    def at_exit(self) -> None:
        """Runs after all of the program's own exit functions, being registered before them."""
        interrupted = self.session is not None and type(self.uncaught()) is KeyboardInterrupt
        evaluated = _evaluated() if interrupted else None
        self.leave()
        self.outlive()
        if evaluated:
            # The interpreter remembers that an interrupt went uncaught, and then dies of SIGINT; it forgets
            # when text is evaluated. We have done that; if the program did before, it should exit with 1,
            # which is known only where we have not.
            try:
                exec("raise KeyboardInterrupt")
            except KeyboardInterrupt:
                pass

    def outlive(self) -> None:
        """Keep the hooks callable to the very end.

        While the interpreter takes itself apart it puts back the builtins it began with, and calls
        the program's destructors, which may be rewritten, after that: without this each of them would end in
        a NameError (``destructors.py`` of ``tests/programs``). A Python that keeps no such copy has no
        ``spare``, and then nothing is put back either.
        """
        hooks = [name for name in vars(builtins) if name.startswith("injector:")]
        for namespace in self.spare:
            namespace.update(dict.fromkeys(hooks, _same))

    def uncaught(self) -> BaseException | None:
        """What ended the program, if it came out of its main code."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        trace = getattr(error, "__traceback__", None)
        if trace is None or (self.main is not None and trace.tb_frame.f_code is not self.main):
            return None
        return error


class Held:
    """Keeps what is written to ``sys.stderr`` for as long as it stands there."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __enter__(self) -> None:
        self.real, sys.stderr = sys.stderr, self

    def __exit__(self, *_: object) -> None:
        sys.stderr = self.real

    def write(self, text: str) -> int:
        self.texts.append(text)
        return len(text)

    def flush(self) -> None:
        """There is nothing behind it."""


def _evaluated() -> list[str]:
    """A list that has something in it as soon as text is evaluated, from now on: a named tuple is."""
    found: list[str] = []

    def heard(event: str, about: tuple[Any, ...]) -> None:
        if event == "exec" and getattr(about[0], "co_filename", "") == "<string>":
            found.append(event)

    try:
        sys.addaudithook(heard)
    except Exception:  # a hook of the program's refuses others
        found.append("")
    return found


def _same(value: object = None, *_: object) -> object:
    return value


def spare_builtins() -> list[dict[str, object]]:
    """The copies of the builtins that the interpreter keeps for its end."""
    used = vars(builtins)
    return [
        found
        for found in gc.get_objects()
        if type(found) is dict and found is not used and "__build_class__" in found
    ]


def say(message: str) -> None:
    """One line (or more) on stderr, if there is one."""
    try:
        sys.stderr.write(f"inject: {message}\n")
    except Exception:
        pass

"""This package in the program's process: from its boot, before the program, to the process's end.

:class:`ProgramProcess` decides what is loaded and when. Where a user's voirfile may probe anything, engine
and session are opened before the program begins. Where only shipped voirfiles might, nothing more of ours is
imported until the program imports a library that one of them is for, or calls a method that one records. In
any case, Python processes that the program starts boot as this one did (:mod:`.children`).

Whatever goes wrong here is printed, and the program runs without us.
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
"""A module that is imported when a program names its own regions."""
VOIR = "voir"
"""A module that is imported when a program sends records itself."""


class ProgramProcess:
    """This process of the program, from its boot to its end.

    ``config`` are the settings of the run, as ``inject run`` has encoded them.
    """

    def __init__(self, config: dict[str, Any], children: Children) -> None:
        self.config = config
        self.children = children
        self.owner = os.getpid()
        """The process that this object was created in. In the child of a fork it is another."""
        self.native = set(sys.modules)
        """The modules that were imported before us."""
        self.main: CodeType | None = None
        """The code of the script, once the program is about to run it."""
        self.engine: Engine | None = None
        self.session: Session | None = None
        self.ended = False
        self.began = False
        """Whether the program has begun, as far as it is us who call it."""
        # A weak reference: a strong one would change when destructors of the program's globals run.
        self.first = ref(sys.modules["__main__"])
        self.module = environment.module_named(sys.orig_argv[1:])
        self.spare: list[dict[str, object]] = []
        """The copies of the builtins that the interpreter keeps for its end (see :meth:`outlive`)."""
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
        """Run all phases that come before the program. Returns an exit code if the program must not start.

        An error of our own is printed, and the program starts without us.
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
            # An option parser of a voirfile exits for a wrong option.
            return error.code if isinstance(error.code, int) else BAD_INPUT
        return None

    def phases_early(self, entry: str | None) -> None:
        """Run the phases in a process whose code cannot be replaced: ``-c``, compiled scripts, prompts.

        That is done at boot, since nothing of ours runs later. ``entry`` is what the program will have as
        ``sys.path[0]``, which is not there yet.
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
            if sys.stderr is not None:
                sys.stderr.flush()
            os._exit(code)  # site would make a fatal error of SystemExit
        self.began = True

    def open(self, folder: str = "", code: CodeType | None = None) -> None:
        """Import what the phases need, now or when there is something to probe.

        Where only libraries are to be probed, that waits until the program imports one. It does not wait if
        a neighbour of the program in ``folder`` is named like a module that we would have to import then,
        nor if the program itself (``code``, where it is known) calls one of the methods to be recorded.
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

            # The program's own code is compiled by now, so that a call in it is seen before it runs.
            calls = code is not None and self.method_calls.asks(code, "__main__")
            if calls or (folder and shadows.names(folder)):
                self._open()
            else:
                libraries = {*self.config.get("auto", ()), USER, VOIR}
                library_watch.LibraryWatch(libraries, self.method_calls, self.open_now).start()
        except Exception as error:
            say(f"not probing: {type(error).__name__}: {error}")

    def belongs(self, code: CodeType) -> None:
        """Take the packages that ``code`` imports for the program, if it is the command of a package."""
        if origin(os.path.abspath(code.co_filename)) != PROGRAM:
            imported = {name.partition(".")[0] for name in code.co_names}
            self.method_calls.packages |= (
                imported - sys.stdlib_module_names - self.method_calls.libraries
            )

    def open_now(self) -> None:
        """Open in the middle of the program, which is about to import a library that is to be probed."""
        known = set(sys.path_importer_cache)
        # What we allocate now must not bring the program's garbage collections forward.
        with gc_padding.UncountedAllocations():
            try:
                self._open()
            except Exception as error:
                say(f"not probing: {type(error).__name__}: {error}")
            if self.engine is not None:
                self.engine.main_met = True  # the program is running already
            self.phases()
        # A program can print this cache, in which our imports have left entries.
        for entry in set(sys.path_importer_cache) - known:
            del sys.path_importer_cache[entry]

    def _open(self) -> None:
        """Create engine, writer and session, and hook in where the process may fork, exec or end."""
        from injector.bus.writer import Writer
        from injector.overseer.session import Session
        from injector.rewrite.engine import Engine

        # The session does not exist yet, but the engine reports nothing before something is requested.
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
        """Return the code of the script to run: ``plain``, or rewritten where a probe names it."""
        self.main = self.rewritten(source, plain, filename)
        return self.main

    def rewritten(self, source: bytes, plain: CodeType, filename: str = "") -> CodeType:
        """Return ``plain`` as it is, or rewritten where a probe names it."""
        engine = self.engine
        if engine is not None and ("__main__" in engine.names or engine.asks(plain, "__main__")):
            held = Held()
            try:
                # The compiler has given its warnings already, when it compiled the code as it is.
                with held:
                    return engine.main_code(source, filename or plain.co_filename, plain)
            except Exception as error:
                say(f"the program is not probed: {type(error).__name__}: {error}")
        return plain

    def expect_another(self) -> None:
        """Wait for a program that the program runs: a file among its arguments, as a debugger has."""
        engine = self.engine
        if engine is None or "__main__" not in engine.names:
            return
        from injector.launch import runners

        files = runners.named(sys.argv[1:])
        if files:
            engine.await_main()
            runners.Runner(files, self.rewritten).wait()

    def leave(self, code: int | None = None) -> None:
        """Write the last records: the process is about to end, with the exit code ``code`` if it is known."""
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
        """Leave a mark in the run folder if the process ends before the program has begun.

        Where ``runpy`` runs the program, that is known from ``__main__``: once it has found what to run, it
        puts a spec there. So the first ``__main__`` has no spec only if nothing was found, or if the program
        has cleared it or put another module in its place, and has begun then. Where ``pdb`` has cleared it,
        which then sets the spec to None (from Python 3.13), there is no loader.
        """
        first = self.first()
        if first is None or not self.config["run"]:
            return
        space = vars(first)
        if space.get("__spec__", 0) is None and space.get("__loader__") is not None:
            try:
                os.mkdir(environment.refusal(self.config["run"], self.owner))
            except OSError:  # then the report says that there is no record
                pass

    def before_exec(self) -> None:
        """Write how often probes have fired: a process that becomes another program runs no exit functions.

        The call may also fail, so that the process goes on.
        """
        if self.session is not None:
            self.session.count(always=os.getpid() == self.owner)

    def before_exit(self, words: tuple[Any, ...], _: dict[str, Any]) -> tuple[Any, object]:
        """Write the last records before ``os._exit``, which runs no exit functions.

        It is called with that one's arguments, and returns them, with nothing to be kept during the call.
        """
        self.leave(words[0] & 0xFF if words and isinstance(words[0], int) else None)
        return words, None

    def at_exit(self) -> None:
        """End, after all of the program's own exit functions: this one was registered before them."""
        interrupted = self.session is not None and type(self.uncaught()) is KeyboardInterrupt
        evaluated = _evaluated() if interrupted else None
        self.leave()
        self.outlive()
        if evaluated:
            # The interpreter remembers that an interrupt was not caught, to die of SIGINT in the end, and
            # forgets it when text is evaluated. We have just done that, so it is made to remember. If the
            # program has done so before, it should exit with 1, which is known only where we have not.
            try:
                exec("raise KeyboardInterrupt")
            except KeyboardInterrupt:
                pass

    def outlive(self) -> None:
        """Keep the names of hooks callable to the very end.

        When the interpreter finalizes, it first restores the builtins with which it began, then calls the
        program's destructors. Those may be rewritten: without this, each of them would end in a NameError
        (``destructors.py`` of ``tests/programs``). On a Python that keeps no such copy, ``spare`` is empty,
        and no builtins are restored either.
        """
        hooks = [name for name in vars(builtins) if name.startswith("injector:")]
        for namespace in self.spare:
            namespace.update(dict.fromkeys(hooks, _same))

    def uncaught(self) -> BaseException | None:
        """Return the exception that came out of the program's main code, if one did."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        trace = getattr(error, "__traceback__", None)
        if trace is None or (self.main is not None and trace.tb_frame.f_code is not self.main):
            return None
        return error


class Held:
    """A context manager that keeps what is written to ``sys.stderr``, in ``texts``."""

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
        """Do nothing: there is no stream behind it."""


def _evaluated() -> list[str]:
    """Return a list to which something is added as soon as text is evaluated, as to define a named tuple."""
    events: list[str] = []

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and getattr(arguments[0], "co_filename", "") == "<string>":
            events.append(event)

    try:
        sys.addaudithook(audit)
    except Exception:  # an audit hook of the program refuses further ones
        events.append("")
    return events


def _same(value: object = None, *_: object) -> object:
    """What all hooks are in the end."""
    return value


def spare_builtins() -> list[dict[str, object]]:
    """Return the copies of the builtins that the interpreter keeps for its end.

    No attribute leads to them; they are found among the objects of the garbage collector by what they hold.
    """
    used = vars(builtins)
    return [
        namespace
        for namespace in gc.get_objects()
        if type(namespace) is dict and namespace is not used and "__build_class__" in namespace
    ]


def say(message: str) -> None:
    """Print a message on stderr, if there is such a stream."""
    try:
        sys.stderr.write(f"inject: {message}\n")
    except Exception:
        pass

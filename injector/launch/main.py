"""The program as ``__main__``, run by CPython's own machinery, with no frame of ours on the stack.

CPython asks ``sys.path_hooks`` whether the file that it is to run is an importable archive or folder. For a
plain script, our hook (:meth:`Script.hook`) says yes, so that CPython looks ``runpy._run_module_as_main`` up
and calls it. That look-up is answered by our stand-in for the module (:class:`Runpy`), and has returned
before the call begins. It gives an object whose call runs in C all the way down to the script's own code
(:class:`Main`). ``-m``, folders and archives come by the same look-up, and go on to the real ``runpy``. What
cannot be read or compiled our hook refuses, so that CPython itself says what is wrong with it.
"""

from __future__ import annotations

import atexit
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _functools import partial  # type: ignore[import-not-found]
from _operator import attrgetter
from stat import S_ISFIFO, S_ISREG

from injector import gc_padding
from injector.launch import shadows
from injector.launch.boot import Held, ProgramProcess
from injector.launch.environment import PACKAGE, STDIN

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

Function: Any = type(lambda: None)
COMPILED = "compiled already"


class Main:
    """What CPython calls as ``runpy._run_module_as_main("__main__", 0)``.

    The script runs while CPython looks up what to call. Each attribute on the way is read by C: the property
    ``__call__`` reads ``both``, which reads ``run`` and then ``over``, and gives a method of the pair of
    their values that takes any arguments and does nothing. ``run`` is ``next``, whose ``__next__`` is the
    script's code as a function: of all ways to call that from C, it counts least towards the recursion limit.

    Without these properties a function of ours would call the script. It would stand in every traceback
    (``raise_uncaught.py`` of ``tests/programs``) and in ``sys._getframe`` (``stack.py``), and would use up
    some of the recursion limit (``recursion_limit.py``); ``tests/launch/test_parity.py`` compares each with
    ``python``.

    Three habits of CPython are needed. A call looks ``__call__`` up as a descriptor. A script's path is
    shown to ``sys.path_hooks`` first: a CPython that does not do so runs the program without us, and there
    is no run to report on. What a hook accepts is run by ``runpy``, imported by that name: a CPython that
    does otherwise would end with an error of its own, in every test of a script.
    """

    __call__ = property(attrgetter("both.__init__"))
    both = property(attrgetter("run", "over"))
    run = property(next)
    __next__: Any = None

    def __init__(self, after: Callable[[], object], at_exit: Callable[[], object]) -> None:
        self.after = after
        self.at_exit: Callable[[], object] | None = at_exit

    @property
    def over(self) -> None:
        """Read, by ``both``, when the script has come to its end."""
        self.at_exit = None
        self.after()

    def __del__(self) -> None:
        """Do what CPython does when the script has ended, before it prints what that raised: flush."""
        Main.__next__ = None  # or it would keep the namespace of the script alive
        _flush(sys.stderr)
        _flush(sys.stdout)
        if self.at_exit is not None:
            atexit.register(self.at_exit)


def calling(
    function: Any, after: Callable[[], object] = int, at_exit: Callable[[], object] = int
) -> Main:
    """Return a callable without a frame of its own that calls ``function()``.

    If that returns, ``after`` is called. If it raises, ``at_exit`` is called before other exit functions.
    """
    Main.__next__ = staticmethod(function)
    return Main(after, at_exit)


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except BaseException:
        pass


class Script:
    """What the interpreter is to run, up to the moment at which it runs it."""

    def __init__(self, process: ProgramProcess, argument: str) -> None:
        self.process = process
        self.argument = argument
        self.path = argument
        if not argument.startswith("/"):
            self.path = f"{os.getcwd()}/{argument}"  # as CPython completes it
        self.source = b""
        self.code: CodeType | None = None
        self.runpy: ModuleType | None = None
        _forget(lambda entry: entry.startswith(PACKAGE))

    def wait_for(self) -> None:
        """Put our stand-ins where CPython will look."""
        self.runpy = sys.modules.get("runpy")
        sys.path_hooks.append(self.hook)
        sys.modules["runpy"] = Runpy(self)

    def hook(self, path: str) -> Any:
        """Accept the script that CPython is to run, and nothing else: one of ``sys.path_hooks``."""
        if path == self.path:
            try:
                self.read()
            except Exception as error:
                # A compiled script is run by CPython itself; a folder or an archive by the real runpy.
                self.process.began = str(error) == COMPILED
                self.refuse()
            else:
                return self
        raise ImportError

    def read(self) -> None:
        """Read and compile the script. Warnings of the compiler are printed only if it succeeds.

        If not, CPython compiles it once more, and prints them itself.
        """
        if self.path == STDIN:
            self.source, filename = _all_of(0), "<stdin>"
        else:
            self.source, filename = _contents(self.path), self.path
        held = Held()
        try:
            with held:
                self.code = compile(self.source, filename, "exec", dont_inherit=True)
        except Exception:
            if self.path == STDIN:
                _again(self.source)
            raise
        for text in held.texts if sys.stderr is not None else ():
            sys.stderr.write(text)

    def refuse(self) -> None:
        """Leave the script to CPython, which runs it or says why not. A compiled one can still be probed."""
        self.step_aside()
        if self.path.endswith(".pyc") and os.path.isfile(self.path):
            folder = os.path.dirname(os.path.realpath(self.path))
            self.process.children.path = folder
            self.process.phases_early(folder)

    def step_aside(self) -> None:
        """Take our stand-ins away, so that the program cannot see them."""
        if isinstance(sys.modules.get("runpy"), Runpy):
            if self.runpy is None:
                del sys.modules["runpy"]
            else:
                sys.modules["runpy"] = self.runpy
        # Only as the last one: CPython may be in a loop over these hooks, whose number it has read before.
        if sys.path_hooks[-1] == self.hook:
            sys.path_hooks.pop()

    def ready(self) -> Any:
        """Run the phases. Returns what CPython is to call."""
        # A user's voirfile may turn the garbage collector off, and that must last.
        if self.process.config["voirfiles"]:
            return self.prepared()
        with gc_padding.UncountedAllocations():
            return self.prepared()

    def prepared(self) -> Any:
        """Do as :meth:`ready`, whatever is allocated."""
        self.step_aside()
        known = {*sys.path_importer_cache, self.path}
        folder = os.path.dirname(os.path.realpath(self.path)) if self.code else sys.path[0]
        if self.code is not None:
            sys.path_importer_cache[self.path] = None
        hidden = self.open(folder)
        if self.code is not None:
            self.become_main()
        self.process.children.path = sys.path[0]
        status = self.process.phases()
        result = self.program() if status is None else calling(partial(sys.exit, status))
        shadows.give_way(hidden, self.process.native)
        _forget(lambda entry: entry not in known)
        return result

    def open(self, folder: str) -> set[str]:
        """Import what the phases need. Returns the modules of it that neighbours of the program hide."""
        entry = sys.path[0]
        sys.path[0] = (
            STDIN  # which is no folder. With -m it is the program's, whose modules we must not get
        )
        self.process.open(folder, self.code)
        hidden = shadows.names(folder) if self.process.session else set()
        if hidden:
            config = self.process.config
            shadows.import_all(PACKAGE, bool(config["voirfiles"] or config["configs"]))
        sys.path[0] = entry
        return hidden

    def program(self) -> Any:
        """Return what CPython is to call, if the program may start."""
        self.process.expect_another()
        if self.code is None:
            import runpy

            return runpy._run_module_as_main  # type: ignore[attr-defined]
        self.process.began = True
        namespace = vars(sys.modules["__main__"])
        code = self.process.code(self.source, namespace["__file__"], self.code)
        self.source, self.code = b"", None
        return calling(Function(code, namespace), self.forget_file, self.forget_file_if_raised)

    def forget_file(self) -> None:
        """Remove the names from ``__main__`` that CPython removes when a script has ended."""
        namespace = vars(sys.modules["__main__"])
        namespace.pop("__file__", None)
        namespace.pop("__cached__", None)

    def forget_file_if_raised(self) -> None:
        """Remove them after an error, where CPython does: before Python 3.14 not after a SystemExit."""
        if sys.version_info >= (3, 14) or self.process.uncaught() is not None:
            self.forget_file()

    def become_main(self) -> None:
        """Set what CPython sets in ``__main__`` and ``sys`` for a script."""
        filename, folder = self.path, os.path.dirname(os.path.realpath(self.path))
        if self.path == STDIN:
            filename, folder = "<stdin>", ""
            sys.orig_argv[sys.orig_argv.index(self.argument)] = sys.argv[0] = "-"
        del sys.path[0]
        if not getattr(sys.flags, "safe_path", False):
            sys.path.insert(0, folder)
        namespace = vars(sys.modules["__main__"])
        namespace["__file__"] = filename
        if sys.version_info < (3, 15):
            namespace["__cached__"] = None
        namespace["__loader__"] = SourceFileLoader("__main__", filename)


class Runpy(type(sys)):  # type: ignore[misc]
    """Stands for the module ``runpy`` until CPython looks up what to call in it."""

    def __init__(self, script: Script) -> None:
        super().__init__("runpy")
        self.__dict__["script"] = script

    @property
    def _run_module_as_main(self) -> Any:
        return self.__dict__["script"].ready()

    def __getattr__(self, name: str) -> Any:
        """Give the real ``runpy`` to another who imports it before CPython does, such as a .pth file."""
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__["script"].step_aside()
        import runpy

        sys.modules["runpy"] = self
        return getattr(runpy, name)


def _forget(superfluous: Callable[[str], bool]) -> None:
    """Drop entries from a cache that the program could print, such as those of our own imports."""
    for entry in list(sys.path_importer_cache):
        if superfluous(entry):
            del sys.path_importer_cache[entry]


def _contents(path: str) -> bytes:
    """Return the bytes of a script. Raises OSError, and ValueError for what CPython does not compile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (S_ISREG(mode) or S_ISFIFO(mode)):
            raise ValueError("no script")
        source = _all_of(descriptor)
    finally:
        os.close(descriptor)
    if path.endswith(".pyc") or source.startswith(MAGIC_NUMBER[:2]):
        raise ValueError(COMPILED)
    return source


def _all_of(descriptor: int) -> bytes:
    """Read a file to its end."""
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _again(source: bytes) -> None:
    """Have CPython read a program from stdin that does not compile, and say why: start it once more."""
    descriptor = os.memfd_create("stdin")
    os.write(descriptor, source)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, 0)
    words = ["-" if word == STDIN else word for word in sys.orig_argv]
    os.execv(sys.executable, words)

"""The programs of tests/programs and how each is called."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One program under one command line."""

    words: tuple[str, ...]
    """What stands after ``python``, and after ``inject run``."""
    stdin: str = ""
    environ: tuple[tuple[str, str], ...] = ()
    cwd: str = "."
    merged: bool = False
    """Both streams go into one pipe, so that their order counts."""
    needs: tuple[str, ...] = ()
    """Packages of the ``test`` extra."""
    mask: tuple[str, ...] = ()
    """Patterns of what differs between two runs of plain python."""
    probed: bool = True
    """Whether it can be the same with a probe, which needs a frame of its own, everywhere."""
    flags: tuple[str, ...] = ()
    """Options of the interpreter."""
    heavy: bool = False
    """Run before a release alone: it takes long, or starts what another case starts likewise."""

    @property
    def name(self) -> str:
        parts = [*self.flags, *self.words, *(["merged"] if self.merged else [])]
        parts += [f"{key}={value}" for key, value in self.environ]
        return " ".join(parts).replace("/", "|")


def case(text: str, **settings: object) -> Case:
    return Case(tuple(text.split()), **settings)  # type: ignore[arg-type]


ADDRESS = r"0x[0-9a-f]{6,}"
C_STACK = r"(?:  Binary file .*\n)+"
PID = r"(?<=pid=)\d+|(?<=process )\d+"

STARTED = [
    # what the program is told
    case("argv.py"),
    case("argv.py a --b=c -- -d --help"),
    case("./argv.py --voirfil x"),
    case("argparse_before_def.py"),
    case("argparse_before_def.py --config mine.yaml --epochs 1 data"),
    case("argparse_before_def.py --workers 3 --config=x"),
    case("argparse_before_def.py --help"),
    case("argparse_before_def.py --nonsense"),
    case("argparse_usage.py"),
    case("argparse_usage.py --size 3 train --lr 0.1"),
    case("main_guard_args.py 1 2 3"),
    case("no_ending -x y"),
    # __main__ and its surroundings
    case("module_attributes.py"),
    case("main_identity.py", mask=(ADDRESS,)),
    case("import_self.py"),
    case("sys_state.py", mask=(ADDRESS,)),
    case("sys_state.py", flags=("-X", "dev", "-O"), mask=(ADDRESS,)),
    case("sys_state.py", environ=(("PYTHONPATH", "folder:/nonexistent"),), mask=(ADDRESS,)),
    case("sys_state.py", environ=(("PYTHONPATH", ""),), mask=(ADDRESS,)),
    case("sys_state.py", environ=(("PYTHONPATH", ":folder"),), mask=(ADDRESS,)),
    case("stack.py"),
    case("recursion_limit.py", probed=False, mask=(r"\d+(?= more times)",)),
    case("getsource.py", mask=(ADDRESS,)),
    case("file_after_end.py"),
    # forms of main
    case("-m module_attributes_other a b"),
    case("-m neighbour_package.runnable a"),
    case("-m neighbour_package.runnable raise"),
    case("-m neighbour_package a"),
    case("-m namespace_package.deep.tool"),
    case("-m namespace_package"),
    case("-m no_such_module"),
    case("-m neighbour_package.missing"),
    case("-m broken_syntax"),
    case("-m broken_at_import"),
    case("-m raise_uncaught"),
    case("-m keyboard_interrupt raise"),
    case("-m timeit -n 1 -r 1 pass", mask=(r"[\d.]+ .sec",)),
    case("folder a"),
    case("folder raise"),
    case("folder/ a"),
    case("empty_folder"),
    case("program.zip a"),
    case("program.zip raise"),
    case("no_such_script.py a"),
    case("no/such/folder/script.py"),
    case("compiled.pyc a"),
    case("- a b", stdin="import sys\nprint(sys.argv, sys.path[0], __file__, __name__)\n"),
    case("-", stdin="def f(:\n"),
    case("- x", stdin="import sys\nx = 1\nprint(repr(sys.stdin.read()))\nraise ValueError(x)\n"),
    case("-", stdin=""),
    # exceptions and ends
    case("raise_uncaught.py"),
    case("raise_uncaught.py finally"),
    case("chained.py"),
    case("exception_group.py"),
    case("attribute_error.py"),
    case("stop_iteration.py"),
    case("generator_exit.py"),
    case("name_error.py"),
    case("group_raise.py"),
    case("memory_error.py"),
    case("syntax_error.py"),
    case("syntax_error_late.py"),
    case("syntax_error_in_import.py"),
    case("indentation_error.py"),
    case("tab_error.py"),
    case("return_outside.py"),
    case("excepthook.py"),
    case("last_value.py"),
    *(case(f"exits.py {how}") for how in ("0", "1", "3", "255", "none", "text", "tuple", "true")),
    *(case(f"exits.py {how}") for how in ("big", "negative", "raise", "class", "builtin", "os")),
    *(case(f"exits.py {how}") for how in ("flushed", "finally", "nested")),
    *(case(f"signals_self.py {name}") for name in ("SIGKILL", "SIGSEGV", "SIGTERM", "SIGHUP")),
    *(case(f"signals_self.py {name}") for name in ("SIGUSR1", "SIGALRM", "SIGPIPE", "SIGINT")),
    case("signals_self.py SIGABRT abort"),
    case("signal_handlers.py"),
    *(case(f"keyboard_interrupt.py {how}") for how in ("signal", "raise", "caught", "subclass")),
    case("keyboard_interrupt.py exec"),
    case("segfault.py"),
    case("fault.py no"),
    case("fault.py segv", mask=(ADDRESS, C_STACK)),
    case("fault.py abort", mask=(ADDRESS, C_STACK)),
    case("atexit_order.py", mask=(ADDRESS,)),
    case("destructors.py"),
    case("destructors.py raise", mask=(ADDRESS,)),
    case("threads.py"),
    case("daemon_threads.py"),
    # streams
    case("warnings_shown.py"),
    case("warnings_shown.py", flags=("-W", "error::SyntaxWarning")),
    case("warnings_shown.py", flags=("-W", "always")),
    case("logging_program.py"),
    case("stdin_reading.py", stdin="first\nsecond\nthird fourth\nfifth\n"),
    case("descriptors.py"),
    case("buffering.py", merged=True),
    case("buffering.py exit", merged=True),
    case("raise_uncaught.py", merged=True),
    case("-m buffering", merged=True),
    case("buffering.py", merged=True, environ=(("PYTHONUNBUFFERED", "1"),)),
    case("broken_pipe.py"),
    case("closed_streams.py stdout"),
    case("closed_streams.py stderr", mask=(ADDRESS,)),
    case("closed_streams.py none"),
    case("locale_encoding.py caf\u00e9"),
    case("locale_encoding.py x", environ=(("LC_ALL", "C"), ("PYTHONCOERCECLOCALE", "0"))),
    case("locale_encoding.py x", environ=(("PYTHONIOENCODING", "latin-1:replace"),)),
    case("files.py"),
]
"""What starting a program by another could change: its words, its streams, how it ends."""

WRITTEN = [
    # the text, run whole
    case("guard_before_def.py"),
    case("def_in_if.py"),
    case("future_annotations.py"),
    case("annotations_evaluated.py"),
    case("globals_scan.py"),
    case("language.py"),
    case("code_objects.py"),
    case("empty.py"),
    case("only_comment.py"),
    case("no_newline_at_end.py"),
    case("encoding_cookie.py"),
    case("encoding_missing.py"),
    case("encoding_unknown.py"),
    case("null_byte.py"),
    case("bom.py"),
    case("crlf.py"),
    case("exec_eval.py"),
    case("generators.py"),
    case("context_managers.py"),
    case("dataclass_program.py"),
    case("asyncio_program.py"),
    # imports
    case("neighbour_import.py"),
    case("../programs/neighbour_import.py"),
    case("folder/../neighbour_import.py"),
    case("link_to_script.py"),
    case("../neighbour_import.py", cwd="folder"),
    case("import_missing.py"),
    case("reload_module.py"),
    case("lazy_import.py"),
    case("zip_import.py"),
    case("finders.py"),
    case("run_others.py"),
    *(case(f"runner.py {how} module_attributes.py") for how in ("module", "dict", "here", "other")),
    *(case(f"runner.py {how} raise_uncaught.py") for how in ("module", "here")),
    case("runner.py module exits.py 3"),
    case("-m pdb neighbour_import.py", stdin="c\nq\n"),
    case("-m cProfile -o prof neighbour_import.py", mask=(r"(?s).+",)),
    case("shadow/main.py"),
    case("raise_in_import.py"),
    case("import_error_main.py"),
    # processes
    case("pickling.py"),
    *(case(f"processes.py {how}") for how in ("fork", "spawn", "forkserver")),
    *(case(f"process_raises.py {how}") for how in ("fork", "spawn")),
    case("process_pool.py fork"),
    case("process_pool.py spawn", heavy=True),
    case("-m processes spawn", heavy=True),
    case("fork.py"),
    case("fork.py exit"),
    case("fork.py raise"),
    *(
        case(f"reexec.py {how} x")
        for how in ("execv", "orig", "posix_spawn", "run", "env", "system")
    ),
    *(case(f"reexec.py {how} x", heavy=True) for how in ("execve", "execvp", "execl")),
    *(case(f"reexec.py {how} x", heavy=True) for how in ("spawn", "shell")),
    case("environment.py"),
    case("environment.py", environ=(("PYTHONPATH", "folder"),)),
    case("child_failures.py", mask=(ADDRESS,)),
    case("async_children.py"),
    # packages that programs are made with
    case("click_app.py train --epochs 2 n", needs=("click",)),
    case("click_app.py --config x train", needs=("click",)),
    case("click_app.py --help", needs=("click",)),
    case("absl_app.py --steps=3 a b", needs=("absl",)),
    case("absl_app.py --config x --steps 4", needs=("absl",)),
    case("absl_app.py --nonsense", needs=("absl",)),
    case("fire_app.py --config=b train --epochs 3 --name=q", needs=("fire",)),
    case("fire_app.py train --nonsense", needs=("fire",)),
    case("hydra_app.py lr=0.2 hydra.run.dir=out", needs=("hydra",)),
    case("hydra_app.py lr=20 hydra.run.dir=out", needs=("hydra",), heavy=True),
    case("hydra_app.py --cfg job", needs=("hydra",), heavy=True),
    case("joblib_app.py", needs=("joblib",), heavy=True),
    case("cloudpickle_app.py", needs=("cloudpickle",)),
    case("numpy_app.py", needs=("numpy",)),
    case("torch_train.py", needs=("torch",), heavy=True),
    case("torch_spawn.py", needs=("torch",), heavy=True),
    case("torch_loader.py fork", needs=("torch",), heavy=True),
    case("torch_loader.py spawn", needs=("torch",), heavy=True),
]
"""What rewriting its functions could change."""

CASES = [*STARTED, *WRITTEN]

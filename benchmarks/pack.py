"""Install, prepare and run the third-party training programs of this folder.

``list`` shows them; ``run NAME`` installs what NAME pins into an environment of its own, makes its
data, and runs it under ``inject run`` (``--plain``: under its interpreter alone). What an earlier
call has installed and prepared is used again.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
HOME = HERE.parent
BASE = Path(".inject") / "benchmarks"


class Benchmark(NamedTuple):
    """One folder of the pack."""

    name: str
    folder: Path
    settings: Mapping[str, Any]

    @property
    def package(self) -> str:
        """The pin of the package that brings the program, ``NAME==VERSION``."""
        return str(self.settings["origin"]["package"])

    @property
    def only_probed(self) -> str | None:
        """Why the program cannot be run without its voirfile, or None where it can."""
        return self.settings.get("only_probed")

    @property
    def voirfile(self) -> Path:
        """The voirfile that names places in the program."""
        return self.folder / "voirfile.py"


class Place(NamedTuple):
    """Where one benchmark keeps what it installs, makes and writes.

    A shared environment exists already, has this package, and holds more than the benchmark.
    """

    environment: Path
    shared: bool
    source: Path
    data: Path
    out: Path

    def fill(self, text: object) -> str:
        """``text`` with ``{data}``, ``{out}`` and ``{source}`` filled in."""
        return str(text).format(data=self.data, out=self.out, source=self.source)

    def program(self, name: str) -> str:
        """A command of the benchmark's own environment."""
        return str(self.environment / "bin" / name)


def load(name: str) -> Benchmark:
    """Read ``benchmarks/NAME/benchmark.yaml``.

    Raises:
        LookupError: there is no such benchmark.
    """
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise LookupError(f"no benchmark {name!r}{meant} There are: {', '.join(known)}")
    file = HERE / name / "benchmark.yaml"
    return Benchmark(name, file.parent, yaml.safe_load(file.read_text(encoding="utf-8")))


def names() -> list[str]:
    """The benchmarks of this folder."""
    return sorted(file.parent.name for file in HERE.glob("*/benchmark.yaml"))


def home(base: Path) -> Path:
    """What keeps itself out of version control, and holds the runs: ``.inject``, else ``base``."""
    base = base.resolve()
    return base.parent if base.parent.name == ".inject" else base


def place(benchmark: Benchmark, base: Path, environment: Path | None = None) -> Place:
    """The folders of ``benchmark`` under ``base``; ``environment`` is one that exists already."""
    own = base.resolve() / benchmark.name
    own.mkdir(parents=True, exist_ok=True)
    ignored = home(base) / ".gitignore"
    if not ignored.exists():  # the folder may be somebody's repository
        ignored.write_text("*\n", encoding="utf-8")
    # Not resolved: an environment is known by the link to its interpreter.
    venv = environment.absolute() if environment else own / "venv"
    return Place(venv, environment is not None, own / "source", own / "data", own / "out")


def install(benchmark: Benchmark, at: Place) -> None:
    """Make the environment, and unpack the source archive where the program is only in that."""
    wanted = (benchmark.folder / "requirements.txt").read_text(encoding="utf-8")
    done = at.environment / f"installed-{benchmark.name}.txt"
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    print(f"installing {benchmark.package} into {at.environment}", file=sys.stderr, flush=True)
    if not at.shared:
        _call(sys.executable, "-m", "venv", "--clear", at.environment)
    # The Python that runs this may have an older idea of what a wheel is than the index has.
    pip = (at.program("python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
    _call(*pip, "install", "--requirement", benchmark.folder / "requirements.txt")
    if not at.shared:
        _call(*pip, "install", "--editable", HOME)
    if benchmark.settings["origin"].get("archive"):
        _unpack(benchmark, at, pip)
    done.write_text(wanted, encoding="utf-8")


def _unpack(benchmark: Benchmark, at: Place, pip: tuple[str, ...]) -> None:
    shutil.rmtree(at.source, ignore_errors=True)
    folder = at.source.with_name("archive")
    _call(*pip, "download", "--no-deps", "--no-binary=:all:", "--dest", folder, benchmark.package)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    unpacked.rename(at.source)
    shutil.rmtree(folder)


def prepare(benchmark: Benchmark, at: Place) -> None:
    """Make the data, once; empty the folder that the program writes into."""
    script = benchmark.folder / "prepare.py"
    if script.exists() and not at.data.exists():
        making = at.data.with_name("data.making")
        shutil.rmtree(making, ignore_errors=True)
        _call(at.program("python"), script, making)
        making.rename(at.data)
    shutil.rmtree(at.out, ignore_errors=True)
    at.out.mkdir()


def command(benchmark: Benchmark, at: Place, extra: list[str], plain: bool) -> list[str]:
    """The command line of the program, under ``inject run`` unless ``plain``."""
    target = shlex.split(at.fill(benchmark.settings["run"]))
    arguments = [at.fill(word) for word in flags(benchmark.settings.get("argv") or {})]
    if plain:
        is_python = target[0] == "-m" or target[0].endswith(".py")
        start = [at.program("python")] if is_python else [at.program(target.pop(0))]
        return [*start, *target, *arguments]
    if target[0] != "-m" and not target[0].endswith(".py"):
        target[0] = at.program(target[0])
    options = benchmark.settings.get("voir", {}).get("options") or {}
    own = ["--voirfile", str(benchmark.voirfile), "--name", benchmark.name, *flags(options, "--")]
    return [at.program("inject"), "run", *own, *extra, *target, *arguments]


def flags(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """``{"--a": 1, "--b": True, "--c": None, "--d": [1, 2]}`` as words: ``--a 1 --b --d 1,2``."""
    for name, value in settings.items():
        if value is None:
            continue
        yield prefix + name
        if isinstance(value, list):
            yield ",".join(map(str, value))
        elif value is not True:
            yield str(value)


def run(
    benchmark: Benchmark,
    base: Path,
    extra: list[str],
    plain: bool = False,
    environment: Path | None = None,
) -> int:
    """Install, prepare and run ``benchmark``; the exit code of the run, as a shell counts it."""
    at = place(benchmark, base, environment)
    install(benchmark, at)
    prepare(benchmark, at)
    settings = benchmark.settings
    folder = at.fill(settings.get("folder", "{out}"))
    variables = {name: at.fill(value) for name, value in (settings.get("env") or {}).items()}
    runs = os.environ.get("INJECT_RUNS", str(home(base) / "runs"))
    words = command(benchmark, at, extra, plain)
    print("+", shlex.join(words), file=sys.stderr, flush=True)
    with subprocess.Popen(
        words, cwd=folder, env={**os.environ, "INJECT_RUNS": runs, **variables}
    ) as process:
        try:
            code = process.wait(settings.get("max_duration"))
        except subprocess.TimeoutExpired:
            print(f"{benchmark.name}: stopped after {settings['max_duration']} s", file=sys.stderr)
            process.terminate()  # inject passes it on to the program, and ends with the report
            code = process.wait() or 1
        except KeyboardInterrupt:  # the terminal has sent it to the program as well
            code = process.wait() or 130
    return code if code >= 0 else 128 - code


def _call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


def main(arguments: list[str] | None = None) -> int:
    """The command line of this module."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.verb == "list":
        for name in names():
            print(f"{name:18} {load(name).settings['description']}")
        return 0
    try:
        benchmark = load(options.name)
    except LookupError as error:
        parser.error(str(error))
    given = options.environment
    if given and not (given / "pyvenv.cfg").is_file():
        parser.error(f"{given}: no virtual environment")
    try:
        if options.verb == "install":
            install(benchmark, place(benchmark, options.base, given))
            return 0
        if options.plain and benchmark.only_probed:
            parser.error(f"{benchmark.name} has no --plain: {benchmark.only_probed}")
        if options.plain and options.extra:
            parser.error(f"--plain runs without inject, which {options.extra[0]!r} is meant for")
        return run(benchmark, options.base, options.extra, options.plain, given)
    except subprocess.CalledProcessError as error:
        print(f"{benchmark.name}: failed: {shlex.join(error.cmd)}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="show the benchmarks")
    for verb in ("install", "run"):
        added = verbs.add_parser(verb, help=f"{verb} one benchmark")
        added.add_argument("name", metavar="NAME")
        added.add_argument("--base", type=Path, default=BASE, help=f"folder of it all ({BASE})")
        added.add_argument(
            "--environment",
            type=Path,
            metavar="DIR",
            help="install into this virtual environment, which has this package already",
        )
    added.add_argument("--plain", action="store_true", help="without inject, as a comparison")
    added.add_argument("extra", nargs="*", metavar="OPTION", help="options of inject run, after --")
    return parser


if __name__ == "__main__":
    sys.exit(main())

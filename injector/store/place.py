"""How the folder of a new run is created: where, under which name, what is tried if that cannot be written.

A folder is named ``NAME.TIME`` and is never shared by two runs. ``mkdir`` decides between runs that start at
one moment, on file systems of several machines as well.
"""

from __future__ import annotations

import os
import time

from ..errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms, before the program starts
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RUNS_VARIABLE = "INJECT_RUNS"
"""The environment variable with the folder for new runs."""
HIDDEN = ".inject"
"""The folder beside the program that holds ``runs`` if no other is named."""
NAME_LIMIT = 100
"""Characters of NAME."""
UNCOMMITTED = "uncommitted.diff"
"""The file in a run folder with the uncommitted changes of files that git tracks, if there are any."""


class Place:
    """A new run folder, or the reasons why there is none."""

    __slots__ = ("new", "path", "problems")

    def __init__(self, path: str | None, problems: tuple[str, ...], new: bool = True) -> None:
        self.path = path
        """The folder; None if no place could be written."""
        self.problems = problems
        """Sentences on the places that could not be written."""
        self.new = new
        """Whether the folder was created for the run."""

    def discard(self) -> None:
        """Remove what was created, as no program was started."""
        if self.path is not None:
            import shutil

            created = self.path if self.new else os.path.join(self.path, "raw")
            shutil.rmtree(created, ignore_errors=True)
            if not self.new and os.path.exists(diff := os.path.join(self.path, UNCOMMITTED)):
                os.unlink(diff)


def create(name: str, runs: str | None = None, environ: Mapping[str, str] | None = None) -> Place:
    """Create a folder ``NAME.TIME`` for a run, however many runs start at the same moment.

    It is created in ``runs``, else in ``$INJECT_RUNS``, else in ``.inject/runs`` of the current folder. If
    that cannot be written, it is created in the user's state folder. Raises nothing: a program runs without a
    record rather than not at all.
    """
    problems: list[str] = []
    for place in _places(runs, os.environ if environ is None else environ):
        folder = _attempt(place, clean_name(name), problems)
        if folder is not None:
            return Place(folder, tuple(problems))
    return Place(None, tuple(problems))


def new_place(name: str, runs: str | None, into: str | None) -> Place:
    """Create a run folder in the folder ``runs``, or make ``into`` one. As :func:`create`.

    Raises UserError if either is no place for one.
    """
    if into is None:
        existing = os.path.abspath(runs or "")
        while not os.path.lexists(existing):
            existing = os.path.dirname(existing)
        if not os.path.isdir(existing):
            raise UserError(f"--runs {runs}: {existing} is a file, and no folder for runs")
        return create(name, runs)
    if runs is not None:
        raise UserError(
            "--into names the run folder, --runs the folder that it is made in: not both"
        )
    return create_into(into)


def create_into(folder: str) -> Place:
    """Make ``folder`` itself a run folder. Other files in it stay.

    Raises UserError if it holds a run already, also one that starts at this moment, or cannot be written. No
    other place is tried, since the user will look for the record in the folder that was named.
    """
    folder = os.path.abspath(folder)
    new = not os.path.exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        names = os.listdir(folder)
        if "run.json" in names or data_files(names):
            raise FileExistsError
        os.mkdir(os.path.join(folder, "raw"))  # of several runs, one succeeds
    except FileExistsError:
        if os.path.isdir(folder):
            raise UserError(f"--into {folder}: this folder holds a run already") from None
        raise UserError(f"--into {folder}: this is no folder") from None
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"--into {folder}: no run can be recorded there: {why}") from None
    return Place(folder, (), new)


def _attempt(runs: str, name: str, problems: list[str]) -> str | None:
    """A new folder in ``runs``; None if that cannot be written, which is added to ``problems``."""
    try:
        return _create_in(runs, name)
    except OSError as error:
        problems.append(f"no run can be recorded in {runs}: {error.strerror or error}")
        return None


def _places(runs: str | None, environ: Mapping[str, str]) -> list[str]:
    """The folders of runs to try, in their order."""
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    users = [os.path.join(state, "injector", "runs")] if os.path.isabs(state) else []
    return [default_runs(runs, environ), *users]


def default_runs(runs: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """The folder of runs: ``--runs``, else the environment's, else ``.inject/runs`` in the current folder."""
    environ = os.environ if environ is None else environ
    wanted = runs or environ.get(RUNS_VARIABLE)
    # Absolute, since the program may change its current folder.
    return os.path.abspath(wanted or os.path.join(HIDDEN, "runs"))


def clean_name(name: str) -> str:
    """``name`` as the name of a file that is not hidden; ``run`` if nothing of it can be used."""
    kept = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in name)
    return kept.strip().lstrip(".")[:NAME_LIMIT] or "run"


def _create_in(runs: str, name: str) -> str:
    """Create a run folder in ``runs``. Raises OSError."""
    if os.path.basename(os.path.dirname(runs)) == HIDDEN:
        os.makedirs(runs, exist_ok=True)
        _keep_out_of_git(os.path.dirname(runs))
    folder = create_unique(runs, name)
    os.mkdir(os.path.join(folder, "raw"))
    return folder


def create_unique(parent: str, name: str) -> str:
    """Create an empty folder ``NAME.TIME`` in ``parent`` that no other run has. Raises OSError."""
    os.makedirs(parent, exist_ok=True)
    moment = time.time_ns() // 1_000
    while True:
        folder = os.path.join(parent, f"{name}.{stamp(moment)}")
        try:
            os.mkdir(folder)
        except FileExistsError:
            moment += 1  # another run started in the same microsecond
            continue
        return folder


def stamp(microseconds: int) -> str:
    """The TIME in a run folder's name at a moment, unix microseconds. Such texts sort as the moments do."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(seconds)) + f".{rest:06d}"


def _keep_out_of_git(folder: str) -> None:
    """Have git ignore ``folder``, so that a run leaves the user's work tree clean."""
    try:
        with open(os.path.join(folder, ".gitignore"), "x") as file:
            file.write("*\n")
    except OSError:
        pass  # the file exists, or the run folder cannot be created either


def data_files(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that are streams of events, ``NAME.data``, in order; not ``.data`` itself."""
    return sorted(name for name in names if name.endswith(".data") and not name.startswith("."))


def replace_file(path: str, pieces: Iterator[bytes] | list[bytes]) -> None:
    """Write ``pieces`` to the file ``path`` in one step: readers see all of it or what was there before.

    Raises OSError, and any error of the iterator; nothing of the draft is left then.
    """
    # A device or a pipe is written to: a file in its place would take it from all others.
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.writelines(pieces)
        return
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb") as file:
            file.writelines(pieces)
        os.replace(draft, path)
    except BaseException as error:
        try:
            os.unlink(draft)
        except OSError:
            pass
        if isinstance(error, OSError) and error.filename == draft:
            error.filename = path  # the file that was to be written
        raise

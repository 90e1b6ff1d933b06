"""Where the folder of a new run is made."""

from __future__ import annotations

import os
import time

from ..errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms, before the program starts
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RUNS_VARIABLE = "INJECT_RUNS"
HIDDEN = ".inject"
NAME_LIMIT = 100
UNCOMMITTED = "uncommitted.diff"
"""In a run folder: the changes of files that git knows, where there are any."""


class Place:
    """A new run folder, or why there is none."""

    __slots__ = ("new", "path", "problems")

    def __init__(self, path: str | None, problems: tuple[str, ...], new: bool = True) -> None:
        self.path = path
        self.problems = problems
        """Requested places that could not be written, as sentences."""
        self.new = new
        """Whether the folder was made for the run."""

    def discard(self) -> None:
        """There was no run: nothing of it stays."""
        if self.path is not None:
            import shutil

            made = self.path if self.new else os.path.join(self.path, "raw")
            shutil.rmtree(made, ignore_errors=True)
            if not self.new and os.path.exists(diff := os.path.join(self.path, UNCOMMITTED)):
                os.unlink(diff)


def create(name: str, runs: str | None = None, environ: Mapping[str, str] | None = None) -> Place:
    """Make a folder ``NAME.TIME`` of its own for a run, however many start at the same moment.

    Looked for: ``runs``, else ``$INJECT_RUNS``, else ``.inject/runs`` in the current folder; when
    that cannot be written, the user's state folder. Raises nothing: a program also runs without a
    record.
    """
    problems: list[str] = []
    for place in _places(runs, os.environ if environ is None else environ):
        folder = _attempt(place, clean_name(name), problems)
        if folder is not None:
            return Place(folder, tuple(problems))
    return Place(None, tuple(problems))


def create_into(folder: str) -> Place:
    """Make exactly ``folder`` a run's; what else lies in it stays.

    Raises UserError when it holds a run already (also one that starts at this very moment), and when
    it cannot be written: a user who names a folder reads from that one.
    """
    folder = os.path.abspath(folder)
    new = not os.path.exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        names = os.listdir(folder)
        if "run.json" in names or data_files(names):
            raise FileExistsError
        os.mkdir(os.path.join(folder, "raw"))
    except FileExistsError:
        if os.path.isdir(folder):
            raise UserError(f"--into {folder}: this folder holds a run already") from None
        raise UserError(f"--into {folder}: this is no folder") from None
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"--into {folder}: no run can be recorded there: {why}") from None
    return Place(folder, (), new)


def _attempt(runs: str, name: str, problems: list[str]) -> str | None:
    try:
        return _create_in(runs, name)
    except OSError as error:
        problems.append(f"no run can be recorded in {runs}: {error.strerror or error}")
        return None


def _places(runs: str | None, environ: Mapping[str, str]) -> list[str]:
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    users = [os.path.join(state, "injector", "runs")] if os.path.isabs(state) else []
    return [default_runs(runs, environ), *users]


def default_runs(runs: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """The folder of runs that ``--runs``, the environment and the current folder mean."""
    environ = os.environ if environ is None else environ
    wanted = runs or environ.get(RUNS_VARIABLE)
    # Absolute, since the program may change its current folder.
    return os.path.abspath(wanted or os.path.join(HIDDEN, "runs"))


def clean_name(name: str) -> str:
    """``name`` as a file name, and never one that hides itself."""
    kept = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in name)
    return kept.strip().lstrip(".")[:NAME_LIMIT] or "run"


def _create_in(runs: str, name: str) -> str:
    if os.path.basename(os.path.dirname(runs)) == HIDDEN:
        os.makedirs(runs, exist_ok=True)
        _keep_out_of_git(os.path.dirname(runs))
    folder = create_unique(runs, name)
    os.mkdir(os.path.join(folder, "raw"))
    return folder


def create_unique(parent: str, name: str) -> str:
    """Make an empty folder ``NAME.TIME`` in ``parent`` that no other run has. Raises OSError."""
    os.makedirs(parent, exist_ok=True)
    moment = time.time_ns() // 1_000
    while True:
        folder = os.path.join(parent, f"{name}.{stamp(moment)}")
        try:
            os.mkdir(folder)
        except FileExistsError:
            moment += 1  # another run of this very microsecond
            continue
        return folder


def stamp(microseconds: int) -> str:
    """The TIME of a run folder that was made then; such texts sort as the moments do."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(seconds)) + f".{rest:06d}"


def _keep_out_of_git(folder: str) -> None:
    try:
        with open(os.path.join(folder, ".gitignore"), "x") as file:
            file.write("*\n")
    except OSError:
        pass  # it is there, or the run itself cannot be written either


def data_files(names: Iterable[str]) -> list[str]:
    """Of the names in a folder those of streams of events, ``NAME.data``, in order.

    What is called ``.data`` is some other program's.
    """
    return sorted(name for name in names if name.endswith(".data") and not name.startswith("."))


def replace_file(path: str, pieces: Iterator[bytes] | list[bytes]) -> None:
    """Put ``pieces`` at ``path`` in one step: a reader never sees half of them. Raises OSError."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb") as file:
            file.writelines(pieces)
        os.replace(draft, path)
    except BaseException:
        try:
            os.unlink(draft)
        except OSError:
            pass
        raise

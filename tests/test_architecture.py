"""The house: who may import whom, what is public, and what never loads torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import injector
from injector.cli.verbs import VERBS

PACKAGE = Path(injector.__file__).parent
SHIPPED_VOIRFILES = sorted((PACKAGE.parent / "voirfiles").glob("*.py"))
SHARED = sorted((PACKAGE / "voirfiles").glob("_[!_]*.py"))

MAY_KNOW = {
    "rewrite": set(),
    "probe": set(),
    "store": set(),
    "bus": {"reaper", "store"},
    "measure": {"probe", "bus", "store"},
    "overseer": {"rewrite", "probe", "measure", "bus"},
    "containers": set(),
    "reaper": set(),
    "launch": {"bus", "overseer", "reaper", "rewrite"},
    "analysis": {"rewrite", "store"},
    "monitor": {"bus", "reaper", "store"},
    "live": {"analysis", "bus", "measure", "store"},
    "report": {"analysis", "live", "store"},
    "export": {"analysis", "live", "store"},
    "compare": {"analysis", "bus", "report", "store"},
    "plot": {"report"},
    "suite": {"analysis", "bus", "containers", "live", "monitor", "reaper", "report", "store"},
    "compat": {"analysis", "store", "suite"},
    "run": {
        *("analysis", "bus", "containers", "export", "launch", "live", "monitor", "overseer"),
        *("rewrite", "report", "store", "suite", "voirfiles"),
    },
}
"""DESIGN's table. `launch` creates the engine that it hands to the overseer's session."""

SUITE_ROOMS = ("config", "environments", "plan", "run", "results")
"""The rooms of `suite`, in the order in which data goes: each may know those before it."""

PLAIN_ROOMS = ("", "../voirfiles")
VAGUE = re.compile(
    r"(?<![a-z.])(told|asked|said|nobody|somebody|whoever|whom)(?![a-z])", re.IGNORECASE
)
"""Words that hide who does what. A dot before one: an attribute in an f-string, which is code."""

EVERYWHERE = {
    *(
        "blas",
        "gc_padding",
        "json_types",
        "_version",
        "errors",
        "exit_status",
        "limits",
        "metrics",
        "mpi",
        "named_tuple",
        "origin",
        "plain_json",
        "schema",
        "value_class",
        "variables",
    ),
}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_rooms(path: Path):
    """The rooms that a file imports while running; imports for type checkers do not count."""
    for node in _running(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from _rooms_of(path, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("injector."):
                    yield alias.name.split(".")[1]


def _running(tree):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _running(node)


def _rooms_of(path: Path, node: ast.ImportFrom):
    if node.level:
        base = path.relative_to(PACKAGE).parent.parts
        parts = [*base[: len(base) - node.level + 1], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == "injector":
        parts = node.module.split(".")[1:]
    else:
        return
    parts = [part for part in parts if part]
    if parts:
        yield parts[0]
    else:
        yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", MAY_KNOW)
def test_imports_go_down_only(room):
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in modules()
        if room_of(path) == room
        for other in imported_rooms(path)
        if _is_room(other) and other not in {room, *MAY_KNOW[room], *EVERYWHERE}
    ]
    assert not wrong, wrong


def test_commands_are_one_module_per_verb():
    shared = {"__init__", "ending", "forms", "help", "live_pages", "opened", "parameters", "verbs"}
    assert {path.stem for path in (PACKAGE / "cli").glob("*.py")} == {*VERBS, *shared} - {"suite"}


@pytest.mark.parametrize("room", SUITE_ROOMS)
def test_suites_go_from_room_to_room(room):
    later = SUITE_ROOMS[SUITE_ROOMS.index(room) + 1 :]
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted((PACKAGE / "suite" / room).rglob("*.py"))
        for name in imported_modules(path)
        if name.startswith(tuple(f"injector.suite.{each}" for each in (*later, "sizing", "new")))
    ]
    assert not wrong, wrong


def imported_modules(path: Path):
    """The full names of what a file imports from this package while running."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in _running(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join(filter(None, [*above, node.module]))
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SHIPPED_VOIRFILES, ids=lambda path: path.stem)
def test_shipped_voirfiles_know_public_names_only(path):
    """And what several of them share, which imports nothing of this package itself."""
    public = {*(f"injector.{name}" for name in injector.__all__), "injector"}
    shared = tuple(f"injector.voirfiles.{file.stem}." for file in SHARED)
    wrong = [
        name
        for name in {*imported_modules(path), *plain_imports(path)}
        if name.split(".")[0] == "injector" and name not in public and not name.startswith(shared)
    ]
    assert not wrong, wrong


SHARED_BY_ALL = {
    "injector.probe.compiled",
    "injector.voirfiles._batches",
    "injector.voirfiles._followed",
    "injector.voirfiles._jitted",
}


def test_what_shipped_voirfiles_share_stands_alone():
    """But for the short ways to what it says, which are in C, and for what several of them share."""
    assert len(SHIPPED_VOIRFILES) > 15 and SHARED
    for path in SHARED:
        names = [name for name in imported_modules(path) if name.startswith("injector")]
        assert {name.rpartition(".")[0] for name in names} <= SHARED_BY_ALL, path


def plain_imports(path: Path):
    """The modules that a file imports by ``import``."""
    for node in _running(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_reports_are_made_of_a_summary_alone():
    """A renderer reads no run folder and writes none; a table may go to a file that the user names."""
    wrong = [
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "report").rglob("*.py")
        if path.name != "formats.py" and "store" in set(imported_rooms(path))
    ]
    assert not wrong, wrong


def test_reports_of_suites_are_made_of_a_summary_alone():
    """The one module that reads a suite's folder for them is the reader."""
    reads = ("injector.store", "injector.live.state", "injector.suite.results.suite_reader")
    wrong = [
        f"{name}.py imports {module}"
        for name in ("cells", "live_view", "scaling", "scores", "suite_report", "suite_summary")
        for module in imported_modules(PACKAGE / "suite" / "results" / f"{name}.py")
        if module.startswith((*reads, "injector.suite.results.run_record.read"))
    ]
    assert not wrong, wrong


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def known_imports(path: Path, known):
    """The modules of the package that a file imports, inside of functions too."""
    package = name_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    for node in _running(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield from [inside] if inside in known else [base] if base in known else []


def test_no_modules_import_each_other():
    """Not in a circle either, however long, nor from inside of functions."""
    known = {name_of(path): path for path in modules()}
    graph = {name: {*known_imports(path, known)} - {name} for name, path in known.items()}
    assert sum(map(len, graph.values())) > 1000
    TopologicalSorter(graph).prepare()  # CycleError names them


def test_a_class_name_stands_for_one_thing():
    """`probe/plain.py` has the twins of the types in C, by the same names; those are not Python."""
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                places.setdefault(node.name, []).append(where)
    assert len(places) > 300
    assert not {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_names_and_sentences_say_who_does_what(room):
    files = sorted((PACKAGE / room).rglob("*.py"))
    wrong = [f"{path}:{line}: {text}" for path in files for line, text in _vague(path)]
    assert files and not wrong, wrong


def test_pages_say_who_does_what():
    root = PACKAGE.parent
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md")]
    text = {page: re.sub("`[^`]*`", "", page.read_text()) for page in pages}
    assert not {page: found for page in pages if (found := VAGUE.findall(text[page]))}


def _vague(path: Path):
    """Of a file. ``asked`` is a key of older records."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.string != '"asked"' and VAGUE.search(token.string):
                yield token.start[0], token.string


def test_vague_words_are_found(tmp_path):
    file = tmp_path / "vague.py"
    file.write_text('x = {"asked": y}  # one reader\n')
    assert not [*_vague(file)]
    file.write_text("x = y.asked\n")
    assert [*_vague(file)]
    file.write_text('_said = f"{x} Nobody\'s"  # told\n"""whom"""\nwhoever = 1\n')
    assert [line for line, _ in _vague(file)] == [1, 1, 1, 2, 3]


def _is_room(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def test_nothing_that_runs_in_the_program_imports_torch():
    for path in modules():
        if room_of(path) not in {"launch", "rewrite", "probe", "measure", "bus", "overseer"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] == "torch"], path


def test_the_public_names_are_these():
    classes = ["StopProgram", "Timer", "UserError", "__version__"]
    assert injector.__all__ == [*classes, "artifact", "metric", "param", "region"]
    assert injector.__all__ == sorted(injector.__all__)
    for name in injector.__all__:
        assert getattr(injector, name) is not None


def test_the_package_itself_imports_almost_nothing():
    program = (
        "import sys; before = set(sys.modules); import injector;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in (
        "['__future__', 'injector', 'injector._version']",
        "['injector', 'injector._version']",
    )


ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"


def test_the_page_on_architecture_names_each_room():
    rows = [line.split("|")[1] for line in ARCHITECTURE.read_text().splitlines() if "|" in line]
    named = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert named == rooms


def test_the_page_on_architecture_names_modules_that_exist():
    """A path begins at the package or at the top; a name alone belongs to the room named last before it."""
    text, room = ARCHITECTURE.read_text(), ""
    paths = re.findall(r"`([\w/]+\.py)`", text)
    assert len(paths) > 25
    for path in paths:
        room = path.rpartition("/")[0] or room
        places = (PACKAGE / path, PACKAGE.parent / path, PACKAGE / room / path)
        assert any(place.is_file() for place in places), path

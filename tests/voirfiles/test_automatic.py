"""When a shipped voirfile acts, and what it may not do."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import recorded

from injector.bus.collector import FinishedRun, collect
from injector.launch import environment

ROOT = Path(__file__).parents[2]

LIBRARY = """
__version__ = "9.0"
def work(x):
    return x * 2
class Thing:
    def act(self):
        return work(1)
"""

VOIRFILE = '''
"""Work is recorded."""
LIBRARY = "somelibrary"
TESTED = ("1.0", "2.0")

def instrument_work(ov):
    ov.region("/somelibrary/work", "work", items=lambda x: x)
    ov.region("/somelibrary/Thing/act", "act", of=lambda self: self)

def instrument_late(ov):
    yield ov.phases.init
    yield ov.phases.run_script
    print("run_script has ended")
'''


class Run:
    """A process that was booted with voirfiles for libraries, and what it left behind."""

    def __init__(self, folder, done):
        self.folder, self.exit, self.out, self.err = (
            folder,
            done.returncode,
            done.stdout,
            done.stderr,
        )
        run = FinishedRun(exit=0, command=["x"], started=0.0, ended=1.0, name="x")
        self.info = collect(str(folder), run)

    @property
    def counts(self):
        [process] = recorded.processes(self.folder)
        return process.counts()


@pytest.fixture
def run(tmp_path):
    def start(program, voirfile=VOIRFILE, own=None, library=LIBRARY, **files):
        texts = {"main": program, "somelibrary": library, **files}
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        shipped = tmp_path / "shipped"
        shipped.mkdir()
        (shipped / "some.py").write_text(voirfile)
        if own is not None:
            (tmp_path / "own.txt").write_text(textwrap.dedent(own))
        settings = {
            "home": str(ROOT),
            "run": str(tmp_path / "run"),
            "voirfiles": [] if own is None else [str(tmp_path / "own.txt")],
            "options": [],
            "configs": [],
            "workers": False,
            "strict": False,
            "pythonpath": None,
            "main": "main",
            "auto": {"somelibrary": [str(shipped / "some.py")]},
        }
        (tmp_path / "run").mkdir()
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env.update(environment.variables(environment.encode(settings), None))
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Run(tmp_path / "run", done)

    return start


def test_a_program_without_the_library_loads_nothing_of_ours(run):
    done = run("""
        import sys
        print(sorted(n for n in sys.modules if n.startswith("injector.")))
        print("ast" in sys.modules, "re" in sys.modules)
    """)
    loaded = done.out.splitlines()[0]
    assert "overseer" not in loaded and "engine" not in loaded and "probe" not in loaded
    assert done.out.splitlines()[1] == "False False"
    assert not list(done.folder.glob("raw/*"))


def test_it_acts_when_the_library_is_imported(run):
    done = run("""
        def main():
            from somelibrary import Thing, work
            for _ in range(3):
                work(5)
            Thing().act()
        main()
    """)
    assert done.err == "" and done.out == "run_script has ended\n"
    assert done.counts == {"work": 4, "act": 1}
    [reported] = done.info["automatic"]
    assert (reported["name"], reported["library"], reported["version"]) == (
        "some",
        "somelibrary",
        "9.0",
    )
    assert reported["tested"] == ["1.0", "2.0"] and reported["missed"] == []
    assert done.info["warnings"] == [] and done.info["probes"] == []


def test_a_neighbour_that_hides_the_library_of_python(run):
    done = run(
        "import ast; import somelibrary; somelibrary.work(1); print(ast.MINE)", ast="MINE = 1"
    )
    assert done.out.startswith("1\n") and done.counts == {"work": 1}, done.err


def test_what_an_unknown_version_lacks_is_named_once(run):
    lacking = LIBRARY.replace("def work", "def labour").replace("work(1)", "1")
    done = run(
        """
        import somelibrary
        somelibrary.Thing().act()
        """,
        library=lacking,
    )
    assert done.counts == {"act": 1}
    [warning] = done.info["warnings"]
    assert warning["kind"] == "auto-missed"
    assert warning["text"] == (
        "somelibrary 9.0 lacks what its shipped voirfile probes (tested with 1.0 – 2.0): "
        "/somelibrary/work"
    )


@pytest.mark.parametrize(
    "wrong", ["raise ValueError('no')", "ov.region('not a selector (', 'x')", "ov.nothing()"]
)
def test_a_voirfile_that_fails_costs_only_what_it_would_record(run, wrong):
    done = run(
        "import somelibrary; print(somelibrary.work(2))",
        voirfile=VOIRFILE.replace(
            "def instrument_work(ov):", f"def instrument_work(ov):\n    {wrong}"
        ),
    )
    assert done.out.startswith("4\n") and done.exit == 0
    assert [warning["kind"] for warning in done.info["warnings"]] == ["auto-missed"]


def test_the_users_own_wins(run):
    done = run(
        """
        import somelibrary
        somelibrary.work(1)
        somelibrary.Thing().act()
        """,
        own="""
        def instrument_mine(ov):
            ov.region("/somelibrary/work", "work", items=7)
            yield ov.phases.load_script
        """,
    )
    assert done.counts == {"work": 2, "act": 1}
    [process] = recorded.processes(done.folder)
    assert [span.items for span in process.named("work")] == [7, 7]


def test_the_users_own_wins_when_it_comes_later(run):
    done = run(
        """
        import somelibrary
        import trigger
        somelibrary.work(1)
        """,
        own="""
        def instrument_mine(ov):
            def asked(module):
                ov.region("/somelibrary/work", "work", items=7)
            ov.after_import("trigger", asked)
        """,
        trigger="",
    )
    [process] = recorded.processes(done.folder)
    assert [span.items for span in process.named("work")] == [7]


def test_children_act_for_themselves(run):
    done = run("""
        import os, sys, subprocess
        if len(sys.argv) > 1:
            import somelibrary
            somelibrary.work(1)
        else:
            subprocess.run([sys.executable, "main.py", "child"], check=True)
            if os.fork() == 0:
                import somelibrary
                somelibrary.work(1)
                somelibrary.work(1)
                os._exit(0)
            os.wait()
    """)
    counts = [process.counts() for process in recorded.processes(done.folder)]
    assert sorted(count["work"] for count in counts) == [1, 2]
    assert all(process["ended"] for process in done.info["processes"][:1])

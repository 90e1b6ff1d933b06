"""Prepare steps: each once, whole or not at all, and what scripts written for milabench find."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from suite_ground import benchmark, definition

from injector.suite import config
from injector.suite.config import definitions
from injector.suite.config.problems import SuiteError
from injector.suite.environments import context, data
from injector.suite.environments.commands import Failed
from injector.suite.environments.context import placeholders, variables

FACTS = {"arch": "cpu", "gpu_count": 1, "cpu_count": 4}
WRITE = """\
import os, sys
with open(os.environ["COUNTED"], "a") as file:
    file.write("run\\n")
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "data.txt"), "w") as file:
    file.write(" ".join(sys.argv[2:]))
"""


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """How often a script has been run."""
    file = tmp_path / "counted"
    monkeypatch.setenv("COUNTED", str(file))
    return lambda: len(file.read_text().splitlines()) if file.exists() else 0


def plan(bench, base):
    found = data.prepare_step(bench, base, FACTS, use_current=True)
    assert found is not None
    return found


def of(tmp_path, script=WRITE, name="bench", **settings):
    folder = definition(tmp_path / "definitions" / "made", prepare_py=script)
    settings.setdefault("prepare", "prepare.py")
    return benchmark(tmp_path, name, definition=str(folder), **settings)


def test_a_step_runs_once_and_fills_its_folder(tmp_path, base, messages, counted):
    bench = of(tmp_path)
    assert not data.is_prepared(bench, base, FACTS, use_current=True)
    assert plan(bench, base).run(messages.append)
    assert (base / "data" / "made" / "data.txt").exists()
    assert data.is_prepared(bench, base, FACTS, use_current=True)
    assert not plan(bench, base).run(messages.append)
    assert not plan(of(tmp_path, name="another"), base).run(messages.append)
    assert counted() == 1
    assert plan(bench, base).run(messages.append, force=True)
    assert counted() == 2
    assert sorted(path.name for path in (base / "data").iterdir()) == ["made"]


def test_a_benchmark_without_a_step_is_prepared(tmp_path, base):
    assert data.is_prepared(benchmark(tmp_path), base, FACTS)
    assert context.data_of(benchmark(tmp_path), base) == base / "data"


def test_arguments_have_placeholders_and_a_folder_of_their_own(tmp_path, base, messages, counted):
    sizes = [
        of(tmp_path, prepare={"script": "prepare.py", "argv": ["{data}", "{cpu_count}", size]})
        for size in ("small", "large")
    ]
    for bench in sizes:
        plan(bench, base).run(messages.append)
    made = [Path(placeholders(bench, base)["data"]) for bench in sizes]
    assert made[0] != made[1]
    assert [(path / "data.txt").read_text() for path in made] == ["4 small", "4 large"]


def test_settings_that_only_a_job_can_fill_are_no_hindrance(tmp_path, base, messages, counted):
    """The program writes into `{out}` of its job; its step has the settings all the same."""
    argv = {"--out": "{out}", "--ranks": "{device_count}"}
    bench = of(tmp_path, argv=argv, env={"WHERE": "{out}/x"})
    assert plan(bench, base).run(messages.append)
    assert plan(bench, base).environ["WHERE"] == f"{base}/extra/bench/x"


@pytest.mark.parametrize(
    "place", definitions.shipped_benchmarks().values(), ids=lambda place: place.name
)
def test_the_step_of_every_shipped_benchmark_can_be_planned(place, tmp_path, base):
    (tmp_path / "suite.yaml").write_text(f"one: {{definition: {place}}}\n")
    (found,) = config.load(tmp_path / "suite.yaml", FACTS).benchmarks
    step = data.prepare_step(found, base, FACTS)
    assert (step is not None) == (place / "prepare.py").is_file()


def test_a_step_can_be_a_list_of_words(tmp_path, base, messages, counted):
    bench = of(tmp_path, prepare=["prepare.py", "{data}", "--size", 3])
    plan(bench, base).run(messages.append)
    assert (context.data_of(bench, base) / "data.txt").read_text() == "--size 3"


def test_a_changed_script_makes_its_data_anew(tmp_path, base, messages, counted):
    plan(of(tmp_path), base).run(messages.append)
    (base / "data" / "made" / "old.txt").write_text("of the old script")
    assert plan(of(tmp_path, script=WRITE + "# changed\n"), base).run(messages.append)
    assert counted() == 2
    assert not (base / "data" / "made" / "old.txt").exists()


def test_a_step_that_fails_leaves_nothing_and_says_why(tmp_path, base, messages):
    script = "import sys, os; os.makedirs(sys.argv[1] + '/half', exist_ok=True)\n"
    script += "print('so far'); sys.exit('there is no such thing')\n"
    bench = of(tmp_path, script=script)
    with pytest.raises(Failed, match="exit code 1") as error:
        plan(bench, base).run(messages.append)
    assert "there is no such thing" in str(error.value) and "so far" in str(error.value)
    assert list((base / "data").iterdir()) == []
    assert not data.is_prepared(bench, base, FACTS, use_current=True)
    log = base / "extra" / ".prepared" / "made.log"
    assert "so far" in log.read_text() and str(log) in str(error.value)


def test_what_it_made_before_stays_when_it_fails(tmp_path, base, messages, counted):
    plan(of(tmp_path), base).run(messages.append)
    with pytest.raises(Failed):
        plan(of(tmp_path, script="raise SystemExit(3)"), base).run(messages.append)
    assert (base / "data" / "made" / "data.txt").exists()
    assert not data.is_prepared(of(tmp_path), base, FACTS, use_current=True)


def test_a_network_that_is_not_there_is_reported(tmp_path, base, messages):
    script = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/data')\n"
    with pytest.raises(Failed, match="a network that is not there") as error:
        plan(of(tmp_path, script=script), base).run(messages.append)
    assert "Connection refused" in str(error.value)


def test_a_step_killed_by_a_signal(tmp_path, base, messages):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"
    with pytest.raises(Failed, match="died by SIGSEGV"):
        plan(of(tmp_path, script=script), base).run(messages.append)


def test_what_was_left_half_done_is_done_again(tmp_path, base, messages, counted):
    half = base / "data" / "made.making"
    half.mkdir(parents=True)
    (half / "half.txt").write_text("")
    plan(of(tmp_path), base).run(messages.append)
    assert [path.name for path in (base / "data" / "made").iterdir()] == ["data.txt"]
    assert not half.exists()


def test_data_without_a_record_is_not_taken_for_finished(tmp_path, base, messages, counted):
    (base / "data" / "made").mkdir(parents=True)
    assert plan(of(tmp_path), base).run(messages.append)
    assert counted() == 1


def test_a_folder_that_must_not_be_moved_is_filled_in_place(tmp_path, base, messages):
    script = "import sys; open(sys.argv[1] + '/where.txt', 'w').write(sys.argv[1])\n"
    bench = of(tmp_path, script=script, prepare={"script": "prepare.py", "in_place": True})
    plan(bench, base).run(messages.append)
    folder = base / "data" / "made"
    assert (folder / "where.txt").read_text() == str(folder)


def test_several_at_once_run_it_once(tmp_path, base, messages, counted):
    bench = of(tmp_path)
    threads = [
        threading.Thread(target=lambda: plan(bench, base).run(messages.append)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted() == 1


def test_data_of_another_definition_is_not_overwritten(tmp_path, base, messages, counted):
    prepare = {"script": "prepare.py", "data": "shared/pictures"}
    plan(of(tmp_path, prepare=prepare), base).run(messages.append)
    other = definition(tmp_path / "definitions" / "other", prepare_py=WRITE + "# other\n")
    bench = benchmark(tmp_path, definition=str(other), prepare=prepare)
    with pytest.raises(Failed, match=r"made/prepare\.py has made for bench"):
        plan(bench, base).run(messages.append)


def test_the_folder_of_a_definition_may_have_any_name(tmp_path, base, messages, counted):
    own = definition(tmp_path / "my näme", prepare_py=WRITE)
    bench = benchmark(tmp_path, definition=str(own), prepare="prepare.py")
    plan(bench, base).run(messages.append)
    assert context.data_of(bench, base) == base / "data" / "my näme"
    assert counted() == 1


def test_a_base_may_be_moved(tmp_path, base, messages, counted):
    plan(of(tmp_path), base).run(messages.append)
    moved = tmp_path / "elsewhere"
    base.rename(moved)
    assert data.is_prepared(of(tmp_path), moved, FACTS, use_current=True)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        ("nosuch.py", "there is no file"),
        ({"script": "prepare.py", "data": "../out"}, "is no folder below"),
        ({"script": "prepare.py", "data": "/tmp"}, "is no folder below"),
    ],
)
def test_a_step_that_makes_no_sense(tmp_path, base, prepare, says):
    with pytest.raises(SuiteError, match=says):
        context.preparation_of(of(tmp_path, prepare=prepare), base)


# --- milabench's ways -------------------------------------------------------------------------------

BENCHFILE = """\
from milabench.pack import Package

class Bench(Package):
    prepare_script = "prepare.py"

__pack__ = Bench
"""
TOLD = """\
import json, os, sys
data = os.environ["MILABENCH_DIR_DATA"]
os.makedirs(data + "/Fake", exist_ok=True)
names = [name for name in os.environ if name.startswith("MILABENCH_DIR_")]
found = {"argv": sys.argv[1:], "cwd": os.getcwd(), "dirs": {name: os.environ[name] for name in names}}
found |= {"config": json.loads(os.environ["MILABENCH_CONFIG"]), "cache": os.environ["XDG_CACHE_HOME"]}
found |= {"hub": os.environ["HF_HUB_CACHE"], "mine": os.environ["MINE"]}
with open(data + "/Fake/found.json", "w") as file:
    json.dump(found, file)
"""


def test_a_script_written_for_milabench_finds_what_it_looks_for(tmp_path, base, messages):
    folder = definition(tmp_path / "bench", benchfile_py=BENCHFILE, prepare_py=TOLD, main_py="")
    (folder / "benchmark.yaml").unlink()
    bench = benchmark(
        tmp_path,
        **definitions.read(folder).settings,
        definition=str(folder),
        group="g",
        install_group="ig",
        argv={"--batch": 8, "--data": "{milabench_data}/Fake"},
        env={"MINE": "{milabench_extra}/x"},
    )
    assert plan(bench, base).run(messages.append)
    found = json.loads((base / "data" / "Fake" / "found.json").read_text())
    assert found["argv"] == ["--batch", "8", "--data", f"{base}/data/Fake"]
    assert found["cwd"] == str(folder)
    python = Path(sys.executable)
    assert found["dirs"] == {
        "MILABENCH_DIR_VENV": str(python.parent.parent),
        "MILABENCH_DIR_DATA": str(base / "data"),
        "MILABENCH_DIR_RUNS": str(base / "runs"),
        "MILABENCH_DIR_EXTRA": str(base / "extra" / "g"),
        "MILABENCH_DIR_CACHE": str(base / "cache"),
        "MILABENCH_DIR_CODE": str(folder),
    }
    assert found["config"]["name"] == "bench"
    assert found["config"]["dirs"]["cache"] == found["cache"] == str(base / "cache")
    assert found["hub"] == str(base / "data" / "hub")
    assert found["mine"] == f"{base}/extra/g/x"
    assert not plan(bench, base).run(messages.append)
    other = bench.with_settings(argv={"--batch": 16})
    assert plan(other, base).run(
        messages.append
    )  # its own arguments: another step in the same folder
    assert not plan(bench, base).run(messages.append)


def test_the_environment_s_commands_come_first(tmp_path, base):
    found = variables(benchmark(tmp_path, install_group="g"), base, {})
    assert found["PATH"].split(os.pathsep)[0] == str(base / "venv" / "g" / "bin")
    assert found["VIRTUAL_ENV"] == str(base / "venv" / "g")

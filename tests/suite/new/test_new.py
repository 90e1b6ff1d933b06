"""``inject new``: the folder of a benchmark, from a script, a repository, a package."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import yaml
from search_path import search_path

from injector.cli.new import main
from injector.suite import config
from injector.suite.environments import installers
from injector.suite.new.fetching import parse

FILES = ["README.md", "benchmark.yaml", "requirements.txt", "voirfile.py"]
TRAIN = """\
import torch


def train(batches, model, optimizer):
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()


def main():
    model = torch.nn.Linear(2, 1)
    train([torch.ones(4, 2)] * 3, model, torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    main()
"""
LINES = [
    'ov.loader("//train > batches", task="train")',
    'ov.value("//train > loss", "loss", task="train")',
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", search_path())
    monkeypatch.setenv("INJECT_BASE", str(tmp_path / "base"))
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def new(*words, run=False):
    """`inject new`; without a run of the program unless one is wanted."""
    return main([*map(str, words), "--try" if run else "--no-try"])


def settings(folder):
    return yaml.safe_load((folder / "benchmark.yaml").read_text())


def loads(place, name):
    """The new folder as a suite sees it."""
    (place / "suite.yaml").write_text(f"{name}: {{definition: benchmarks/{name}}}\n")
    (found,) = config.load(place / "suite.yaml").benchmarks
    return found


def test_a_script(place, capsys):
    assert new("mine", "--script", "train.py", "--run", "train.py --lr 0.1 --fast") == 0
    folder = place / "benchmarks" / "mine"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    printed = settings(folder)
    assert printed["origin"] == {"path": "../.."} and printed["install_group"] == "mine"
    assert printed["run"] == "train.py" and printed["folder"] == "{source}"
    assert printed["argv"] == {"--lr": "0.1", "--fast": True}
    assert printed["voir"]["options"] == {"skip": 5, "stop": 60}, "it was not run"
    assert "# train.py:5  for batch in batches:" in (folder / "voirfile.py").read_text()
    assert "torch==" in (folder / "requirements.txt").read_text()
    assert "train.py:5" in capsys.readouterr().out
    assert loads(place, "mine").definition == folder


def test_what_it_wrote_runs_and_counts_the_steps(place):
    assert main(["mine", "--script", "train.py", "--try-for", "100"]) == 0
    assert sorted(path.name for path in place.iterdir()) == ["benchmarks", "train.py"]
    voirfile = (place / "benchmarks" / "mine" / "voirfile.py").read_text()
    assert all(line in voirfile for line in LINES)
    assert "# train.py:5  for batch in batches:" in voirfile
    words = [
        "run",
        "--quiet",
        "--into",
        "run",
        "--voirfile",
        "benchmarks/mine/voirfile.py",
        "train.py",
    ]
    subprocess.run([sys.executable, "-m", "injector", *words], check=True, env=os.environ)
    record = json.loads((place / "run" / "run.json").read_text())
    assert record["misses"] == [] and record["failures"] == []
    assert record["training"][0]["steps"] == 3
    options = settings(place / "benchmarks" / "mine")["voir"]["options"]
    assert options == {"skip": 0, "stop": 3}, "it makes no more steps"
    assert [probe["fired"] for probe in record["probes"]] == [1, 3]


@pytest.mark.release
def test_a_repository_is_pinned_where_it_is_now(place, capsys):
    repository = place / "repo"
    repository.mkdir()
    (repository / "train.py").write_text(TRAIN + "    open('trained.txt', 'w')\n")
    (repository / "requirements.txt").write_text("# needed\nsix==1.17.0\n")
    (repository / "old").mkdir()
    (repository / "old" / "train.py").write_text("print 1\n")
    who = ("-c", "user.name=x", "-c", "user.email=x@y.z")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "one")):
        subprocess.run(["git", *words], cwd=repository, check=True)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True).strip()
    assert new("theirs", "--git", "repo", "--run", "train.py", run=True) == 0
    folder = place / "benchmarks" / "theirs"
    (source,) = (place / "base" / "sources").glob("repo-*")
    assert not (
        source / "trained.txt"
    ).exists()  # what the program writes is not left in its source
    assert settings(folder)["origin"] == {"git": str(repository), "commit": head}
    assert all(line in (folder / "voirfile.py").read_text() for line in LINES)
    assert "six==1.17.0" in (folder / "requirements.txt").read_text()
    assert head in capsys.readouterr().err
    assert new("other", "--git", "repo", "--run", "nosuch.py") == 2
    assert f"there is no such script in {repository}" in capsys.readouterr().err
    assert new("other", "--git", "repo", "--run", "old/train.py") == 2
    assert "inject new: old/train.py:1: does not parse in Python 3" in capsys.readouterr().err
    assert new("other", "--git", "repo") == 2
    assert "train.py" in capsys.readouterr().err


@pytest.fixture
def house(place, monkeypatch):
    """An index of packages that is a folder: one with a module and a command that train."""
    folder = place / "house"
    folder.mkdir()
    info = "pkg-1.5.dist-info"
    entry = "[console_scripts]\nteach = pkg.cli:main\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/__main__.py": "from .train import main\nmain()\n",
        "pkg/train.py": TRAIN,
        "pkg/cli.py": "from pkg import train\n\ndef main():\n    train.main()\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: pkg\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(folder / "pkg-1.5-py3-none-any.whl", "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    installers.uv_options.cache_clear()
    return folder


@pytest.mark.parametrize(
    ("run", "tried", "says"),
    [
        ("-m pkg.train", False, "# pkg/train.py:5  for batch in batches:"),
        ("-m pkg", False, "# pkg/train.py:5  for batch in batches:"),
        ("teach maths --much", True, 'ov.loader("/pkg.train/train > batches"'),
    ],
)
def test_a_package(place, house, run, tried, says):
    assert new("theirs", "--package", "pkg", "--run", run, run=tried) == 0
    folder = place / "benchmarks" / "theirs"
    assert settings(folder)["origin"] == {"package": "pkg==1.5"}
    assert settings(folder)["run"] == run.partition(" --")[0]
    assert says in (folder / "voirfile.py").read_text()
    loads(place, "theirs")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--package", "pkg"], 2, "there is teach, -m pkg, -m pkg.train"),
        (["--package", "pkg", "--run", "-m pkg.nosuch"], 2, "pkg has no module pkg.nosuch"),
        (["--package", "pkg", "--run", "nosuch"], 2, "pkg has no command nosuch"),
        (["--package", "pkg==7", "--run", "-m pkg"], 1, "pkg==7 cannot be had"),
        (["--package", "pkg>=1", "--run", "-m pkg"], 2, "write NAME==VERSION"),
    ],
)
def test_a_package_that_has_no_such_thing(place, house, capsys, words, code, says):
    assert new("theirs", *words) == code
    assert says in capsys.readouterr().err
    assert not (place / "benchmarks").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["../up", "--script", "train.py"], "is no name of a benchmark"),
        (["_private", "--script", "train.py"], "is no name of a benchmark"),
        (["a b", "--script", "train.py"], "is no name of a benchmark"),
        (["ok"], "one of --package, --git and --script"),
        (
            ["ok", "--script", "train.py", "--package", "pkg"],
            "one of --package, --git and --script",
        ),
        (["ok", "--script", "train.py", "--commit", "abc"], "--commit belongs to --git"),
        (["ok", "--script", "nosuch.py"], "there is no such file"),
        (["ok", "--script", "broken.py"], "broken.py:1: does not parse"),
        (["ok", "--script", "train.py", "--run", "--lr 1"], "write a script"),
    ],
)
def test_what_makes_no_sense(place, capsys, words, says):
    (place / "broken.py").write_text("def (\n")
    assert new(*words) == 2
    assert says in capsys.readouterr().err
    assert not (place / "benchmarks").exists()


def test_nothing_is_overwritten(place, capsys):
    assert new("mine", "--script", "train.py") == 0
    (place / "benchmarks" / "mine" / "voirfile.py").write_text("mine")
    assert new("mine", "--script", "train.py") == 2
    assert "is there already" in capsys.readouterr().err
    assert (place / "benchmarks" / "mine" / "voirfile.py").read_text() == "mine"


def test_a_program_without_a_loop_of_its_own_gets_a_voirfile_that_is_valid(place):
    (place / "plain.py").write_text(
        "import torch\nfrom somewhere import Trainer\nTrainer().fit()\n"
    )
    assert new("plain", "--script", "plain.py") == 0
    voirfile = place / "benchmarks" / "plain" / "voirfile.py"
    ast.parse(voirfile.read_text())
    assert "shipped for torch" in " ".join(voirfile.read_text().split())
    words = ["check", "plain.py", "--voirfile", str(voirfile)]
    done = subprocess.run([sys.executable, "-m", "injector", *words], env=os.environ)
    assert done.returncode == 0


def test_a_program_that_cannot_run_is_written_all_the_same(place, capsys):
    """Its voirfile leaves the steps to the shipped ones, and says where its loop is."""
    (place / "train.py").write_text("import sys\nsys.exit('no data')\n" + TRAIN)
    assert new("mine", "--script", "train.py", run=True) == 0
    printed = capsys.readouterr()
    assert (
        "the run failed" in printed.err
        and "no data" in printed.err
        and "exit code 1" in printed.err
    )
    assert "train.py:7  for batch in batches:" in printed.out
    assert "found by what is shipped for torch" in printed.out


def test_a_program_that_does_not_end_is_ended(place, capsys):
    text = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
    (place / "train.py").write_text(f"{text}time.sleep(600)\nopen('end', 'w')\n")
    assert main(["mine", "--script", "train.py", "--try-for", "6"]) == 0
    assert "no training step was seen within 6 s" in capsys.readouterr().err
    assert not alive(int((place / "pid").read_text())) and not (place / "end").exists()


def test_nothing_is_left_behind_when_it_is_interrupted(place):
    """SIGTERM ends the program that is being run, and removes what was made for it."""
    text = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)\n"
    (place / "train.py").write_text(text)
    scratch = place / "scratch"
    scratch.mkdir()
    words = [sys.executable, "-m", "injector", "new", "mine", "--script", "train.py"]
    process = subprocess.Popen(words, env={**os.environ, "TMPDIR": str(scratch)})
    try:
        until(lambda: (place / "pid").exists() and (place / "pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    finally:
        process.kill()
    until(lambda: not alive(int((place / "pid").read_text())))
    assert list(scratch.iterdir()) == [] and not (place / "benchmarks").exists()


def until(reached, seconds=60):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("limit", ["0", "x", "-3"])
def test_a_limit_that_is_no_time(place, capsys, limit):
    with pytest.raises(SystemExit, match="2"):
        new("mine", "--script", "train.py", "--try-for", limit)
    assert "a whole number of seconds" in capsys.readouterr().err or limit == "-3"


@pytest.mark.parametrize(
    ("text", "run", "argv"),
    [
        ("-m pkg.mod --a 1 --b --c=2", "-m pkg.mod", {"--a": "1", "--b": True, "--c=": "2"}),
        ("trl sft --lr -3", "trl sft", {"--lr": "-3"}),
        ("train.py config/x.py", "train.py config/x.py", {}),
        ("train.py --a 1 2", "train.py", {"--a": "1", "--": ["2"]}),
        ("train.py fit +a.b=1 ~c= -m", "train.py fit", {"+a.b=": "1", "~c=": "", "-m": True}),
        ("train.py --a 1 2 --b 3 4", "train.py", ["--a", "1", "2", "--b", "3", "4"]),
        ("train.py --a 1 --b --a 2", "train.py", ["--a", "1", "--b", "--a", "2"]),
    ],
)
def test_what_is_run_is_taken_apart(text, run, argv):
    found = parse(text)
    assert (found.run, found.argv()) == (run, argv)

"""Every verb that runs no program, with arguments that are empty, missing, unreadable or of the wrong kind.

Each is a sentence on stderr and exit code 2, without a traceback, and nothing is written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from injector.bus.collector import FinishedRun, collect
from injector.cli import main
from injector.cli.verbs import VERBS

RUN_VERBS = {"report": [], "watch": ["--once"], "pack": [], "query": ["select 1"]}
READING = [verb for verb in VERBS if verb not in ("run", "new", "suite")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run, and beside it what is none."""
    top = tmp_path_factory.mktemp("odd")
    run = top / ".inject" / "runs" / "alpha.2026-01-01_00-00-00.000000"
    (run / "raw").mkdir(parents=True)
    command = ["inject", "run", "x.py"]
    collect(str(run), FinishedRun(started=0.0, ended=1.0, exit=0, name="alpha", command=command))
    (top / "file").write_text("x\n")
    (top / "empty").mkdir()
    (top / "link").symlink_to("nowhere")
    (top / "broken.py").write_text("def f(:\n")
    (top / "binary.py").write_bytes(b"\xff\xfe\x00")
    (top / "exits.py").write_text("raise SystemExit(3)\n")
    (top / "fine.py").write_text("def main():\n    loss = 1\n")
    return top


def outcome(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and what was printed on stderr; nothing may be on stdout, nor new in the folder."""
    before = sorted(os.walk(folder))
    capsys.readouterr()
    try:
        code = main(list(words))
    except SystemExit as ended:  # argparse
        code = int(str(ended.code))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sorted(os.walk(folder)) == before
    return code, printed.err


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("", "the name of a run is empty"),
        ("nope", "nope: this folder does not exist, and "),
        ("alphabet", "the nearest: alpha"),
        ("file", "file: this is a file and no folder of a run"),
        ("empty", "empty: this folder holds no record of a run"),
        ("link", "link: this folder does not exist"),
        (".inject/runs", "this is a folder of runs (name one of them, or add --runs .inject/runs)"),
    ],
)
@pytest.mark.parametrize("verb", RUN_VERBS)
def test_what_is_no_run(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, which: str, message: str
) -> None:
    code, error = outcome(folder, capsys, verb, which, *RUN_VERBS[verb])
    assert (code, error.startswith("inject: "), message in error) == (2, True, True), error


@pytest.mark.parametrize("runs", ["", "nope", "file"])
@pytest.mark.parametrize("verb", [*RUN_VERBS, "runs"])
def test_a_folder_of_runs_that_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, runs: str
) -> None:
    words = [] if verb == "runs" else ["LAST", *RUN_VERBS[verb]]
    code, error = outcome(folder, capsys, verb, *words, "--runs", runs)
    assert code == 2 and f"--runs {runs or repr('')}: no runs can be listed" in error


@pytest.mark.parametrize("verb", READING)
def test_an_option_that_no_one_knows(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    needed = {"plot": ["--x", "devices", "--y", "perf"], "merge": ["-o", "new"]}.get(
        verb, RUN_VERBS.get(verb, [])[:1]
    )
    code, error = outcome(folder, capsys, verb, "--nonsense", "fine.py", *needed)
    assert code == 2 and "--nonsense" in error and "Traceback" not in error


@pytest.mark.parametrize("output", ["", "nope/out", "empty"])
@pytest.mark.parametrize("form", ["table", "csv", "json", "parquet"])
@pytest.mark.parametrize("words", [("runs",), ("query", "LAST", "select 1 as one")])
def test_what_cannot_be_written_to(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], form: str, output: str
) -> None:
    code, error = outcome(folder, capsys, *words, "--format", form, "--output", output)
    assert code == 2 and error.startswith(f"inject: --output {output or repr('')}: ")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "the query is empty"),
        (" \n", "the query is empty"),
        (";;", "the query is empty"),
        ("-- a comment", "the query is empty"),
        ("select 1; select 2", "the query has 2 statements"),
        ("select * from step", "there is no table step; did you mean steps? There are: steps, "),
        ("select * from Region", "did you mean regions?"),
        ("select * from nothing_like_it", "there is no table nothing_like_it; there are: steps, "),
        ("drop view steps", "this one is a DROP statement"),
        ("create table t as select 1", "this one is a CREATE statement"),
        ("copy steps to 'x.csv'", "this one is a COPY statement"),
        ("attach 'x.db'", "this one is a ATTACH statement"),
        ("set threads = 8", "this one is a SET statement"),
        ("select * from read_csv('file')", "cannot be run"),
        ("select nope from steps", "nope"),
        ("selec", "syntax error"),
        ("select '\udcff'", "not valid UTF-8"),
    ],
)
def test_a_query_that_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str], sql: str, message: str
) -> None:
    code, error = outcome(folder, capsys, "query", "LAST", sql)
    assert code == 2 and error.startswith("inject: ") and message in error
    assert "sqlite" not in error and "pg_" not in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("query", "select 1", "LAST"), "the run comes before the query"),
        (("watch", "--web", "--once"), "--web serves a page"),
        (("watch", "--web", "--json"), "--web serves a page"),
        (("watch", "--port", "80"), "add --web"),
        (("report", "--base", "nope"), "--base nope: there is no such folder"),
        (("report", "--price", "much"), "--price is what an hour costs"),
        (("watch", "--once", "--base", "file"), "--base file: this is no folder"),
        (("query", "LAST", "select 1", "--base", ""), "--base '': there is no such folder"),
        (("pack", "--base", "file"), "--base file: this is no folder"),
        (("runs", "--base", "file"), "--base file: this is no folder"),
        (("watch", "--web", "--port", "x"), "a port is a number"),
        (("functions",), "name one script, module or package"),
        (("functions", ""), "name one script, module or package"),
        (("functions", "-m", ""), "name one script, module or package"),
        (("functions", "fine.py", "-m", "fine"), "name one script, module or package"),
        (("functions", "nope"), "there is no file and no module nope"),
        (("functions", "broken.py"), "broken.py does not parse"),
        (("functions", "binary.py"), "binary.py does not parse"),
        (("functions", "fine.py", "--grep", "["), "is no regular expression"),
        (("functions", "math"), "has no Python source"),
        (("check",), "name a script"),
        (("check", "fine.py"), "there is no voirfile to check"),
        (("check", "--voirfile", "nope.py", "fine.py"), "nope.py"),
        (("check", "--voirfile", "empty", "fine.py"), "cannot be read"),
        (("check", "--voirfile", "broken.py", "fine.py"), "does not parse"),
        (("check", "--voirfile", "exits.py", "fine.py"), "SystemExit: 3"),
        (("check", "--voirfile", "fine.py", "fine.py"), "has no instrument"),
        (("help", "nope"), "unknown verb nope"),
        (("reprot",), "did you mean report?"),
        (("fine.py",), "did you mean inject run fine.py?"),
        (("",), "usage: inject VERB"),
        ((), "usage: inject VERB"),
    ],
)
def test_other_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, error = outcome(folder, capsys, *words)
    assert code == 2 and message in error


def test_nothing_is_packed_where_one_is_no_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = outcome(folder, capsys, "pack", "LAST", "nope")
    assert code == 2 and "nope" in error


@pytest.mark.parametrize("verb", [[], ["report"], ["query"], ["suite"]])
def test_help_is_the_verbs_own(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for words in (["help", *verb], [*verb, "--help"]):
        try:
            assert main(words) == 0
        except SystemExit as ended:
            assert ended.code == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""


def shell(folder: Path, line: str) -> tuple[str, str]:
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "INJECT": f"{sys.executable} -m injector"},
    )
    return done.stdout, done.stderr


def test_a_reader_that_is_gone_and_a_disk_that_is_full(folder: Path) -> None:
    loud = "for words in --help 'functions argparse' 'suite schema'; do "
    out, err = shell(folder, loud + "$INJECT $words | true; echo ${PIPESTATUS[0]}; done")
    assert set(out.split()) <= {"0", "141"} and err == ""
    out, err = shell(
        folder, "for words in report runs; do $INJECT $words >/dev/full; echo $?; done"
    )
    assert out.split() == ["2", "2"]
    assert err == "inject: what is printed cannot be written: No space left on device\n" * 2
    assert shell(folder, "$INJECT report >&-; echo $?")[1] == ""


def test_names_that_no_encoding_has_letters_for(folder: Path) -> None:
    odd = os.fsdecode(b"odd\xff")
    (folder / f"{odd}.py").write_text("def f():\n    \u00e9 = 1\n")
    run = folder / ".inject" / "runs" / f"{odd}.2025-01-01_00-00-00.000000"
    (run / "raw").mkdir(parents=True)
    (run / "run.json").write_text('{"schema": 1}')
    words = ["functions " + f"{odd}.py", "runs", "runs --format csv", f"report {odd}", "report odd"]
    for encoding in ("PYTHONIOENCODING=ascii", "PYTHONIOENCODING=utf-8"):
        for each in words:
            line = f"export {encoding}; $INJECT {each} && echo fine"
            done = subprocess.run(
                [b"bash", b"-c", os.fsencode(line)],
                cwd=folder,
                capture_output=True,
                env={**os.environ, "INJECT": f"{sys.executable} -m injector"},
            )
            assert done.stdout.endswith(b"fine\n"), (encoding, each, done.stderr)


@pytest.mark.parametrize("words", [("check", "--voirfile", "fine.py"), ("functions",)])
def test_a_program_that_cannot_be_read(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("injector.rewrite.locate.ProgramSources.script", refuse)
    assert outcome(folder, capsys, *words, "fine.py") == (
        2,
        "inject: fine.py: Permission denied\n",
    )

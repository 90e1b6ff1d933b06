"""Environments of install groups: whole or unfinished, locked, made once, by either installer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from suite_ground import benchmark, own, wheel

from injector.suite.config.problems import SuiteError
from injector.suite.environments import commands, install_groups, installers, requirements
from injector.suite.environments.commands import Failed
from injector.suite.environments.install_groups import InstallGroup

pytestmark = pytest.mark.usefixtures("house")
SHORT_OF_TIME = 120


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.release)])
def how(request):
    """Both installers, for what each does in a way of its own; pip takes three times as long."""
    return request.param


@pytest.fixture
def ours(tmp_path):
    return own(tmp_path / "own")


def wants(tmp_path, name, *lines):
    """What a benchmark with these lines in its requirements wants."""
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))
    return requirements.Requirements((folder / "requirements.txt",), ())


def group(tmp_path, **lines):
    bench = {name: wants(tmp_path, name, *each) for name, each in lines.items()}
    return InstallGroup("stones", "cpu", bench)


def record(base):
    return json.loads((base / "venv" / "stones" / install_groups.RECORD).read_text())


@pytest.mark.parametrize("how", installers.INSTALLERS)
def test_what_all_benchmarks_of_a_group_want_is_installed_once(tmp_path, base, messages, ours, how):
    wanted = group(tmp_path, one=["wall"], two=["stone==1.0"])
    assert install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    found = record(base)
    assert found["packages"] == {"overlay-injector": "0.0.1", "stone": "1.0", "wall": "1.0"}
    assert found["installer"] == how
    assert list(found["requirements"].values()) == [["one"], ["two"]]
    interpreter = base / "venv" / "stones" / "bin" / "python"
    words = [interpreter, "-I", "-c", "import wall, stone, injector; print(stone.version)"]
    assert subprocess.check_output(words, text=True).strip() == "1.0"
    assert not install_groups.install(wanted, base, messages.append, own=ours)
    fewer = InstallGroup("stones", "cpu", {"two": wanted.required["two"]})
    assert not install_groups.install(fewer, base, messages.append, own=ours)
    assert len(messages) == 1


def test_the_lock_is_used_until_newer_versions_are_requested(
    tmp_path, base, messages, ours, how, house
):
    wanted = group(tmp_path, one=["stone<3"])
    install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    lock = base / "venv" / "stones.lock.txt"
    assert "stone==2.0 --hash=sha256:" in lock.read_text()
    wheel(house, "stone", "2.1")
    install_groups.install(wanted, base, messages.append, installer=how, own=ours, force=True)
    assert record(base)["packages"]["stone"] == "2.0"
    install_groups.install(wanted, base, messages.append, installer=how, own=ours, update=True)
    assert record(base)["packages"]["stone"] == "2.1"
    assert "stone==2.1" in lock.read_text()


def test_a_file_that_is_not_the_locked_one_is_refused(
    tmp_path, base, messages, ours, how, house, monkeypatch
):
    monkeypatch.setenv("UV_NO_CACHE", "1")  # it would have kept the right one
    wanted = group(tmp_path, one=["stone==1.0"])
    install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    wheel(house, "stone", "1.0", {"stone.py": "version = 'another'\n"})
    with pytest.raises(Failed, match="cannot be installed any more") as error:
        install_groups.install(wanted, base, messages.append, installer=how, own=ours, force=True)
    assert "--update" in str(error.value)
    assert install_groups.work_left(wanted, base, ours).why == "it was left unfinished"


def test_changed_requirements_make_the_environment_anew(tmp_path, base, messages, ours):
    install_groups.install(group(tmp_path, one=["wall"]), base, messages.append, own=ours)
    changed = group(tmp_path, one=["roof"])
    assert install_groups.work_left(changed, base, ours).why == "the requirements of one are new"
    install_groups.install(changed, base, messages.append, own=ours)
    assert set(record(base)["packages"]) == {"overlay-injector", "roof", "stone"}


def test_a_file_that_requirements_include_counts(tmp_path):
    one = wants(tmp_path, "one", "-r more.txt  # why")
    before = one.digest
    (tmp_path / "one" / "more.txt").write_text("stone==1.0\n")
    assert one.digest != before
    assert [line.project for line in one.packages()] == ["stone"]


def test_contradicting_pins_name_who_asks_and_the_way_out(tmp_path, base, messages, ours, how):
    wanted = group(tmp_path, one=["# heavy", "stone==1.0"], two=["roof"], three=["stone==2.0"])
    with pytest.raises(Failed) as error:
        install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    text = str(error.value)
    assert "==1.0 (one, requirements.txt:2)" in text
    assert "==2.0 (three, requirements.txt:1)" in text
    assert "install_group" in text
    assert "conflict" in text or "No solution" in text


def test_a_package_that_is_nowhere(tmp_path, base, messages, ours, how):
    with pytest.raises(Failed, match="nonsuch") as error:
        wanted = group(tmp_path, one=["nonsuch==3"])
        install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    assert "one, requirements.txt:1" in str(error.value)
    assert not (base / "venv" / "stones" / install_groups.RECORD).exists()


def test_an_index_that_cannot_be_reached(tmp_path, base, messages, ours, how, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://127.0.0.1:9/more")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(Failed, match="index cannot be reached"):
        wanted = group(tmp_path, one=["nonsuch==3"])
        install_groups.install(wanted, base, messages.append, installer=how, own=ours)


def test_what_was_left_unfinished_is_repaired(tmp_path, base, messages, ours):
    wanted = group(tmp_path, one=["wall"])
    install_groups.install(wanted, base, messages.append, own=ours)
    (base / "venv" / "stones" / install_groups.RECORD).unlink()
    assert install_groups.why_missing(asking(tmp_path, "one"), base) is not None
    assert install_groups.work_left(wanted, base, ours).why == "it was left unfinished"
    assert install_groups.install(wanted, base, messages.append, own=ours)
    assert record(base)["packages"]["wall"] == "1.0"


def asking(tmp_path, name):
    return benchmark(
        tmp_path, name, install_group="stones", requirements=f"{name}/requirements.txt"
    )


def test_a_benchmark_knows_whether_its_environment_has_what_it_wants(
    tmp_path, base, messages, ours
):
    wanted = group(tmp_path, one=["wall"])
    one = asking(tmp_path, "one")
    assert (
        install_groups.why_missing(one, base)
        == "the environment stones is not installed, and --use-current-env is not given"
    )
    install_groups.install(wanted, base, messages.append, own=ours)
    assert install_groups.why_missing(one, base) is None
    assert install_groups.python_of(one, base) == base / "venv" / "stones" / "bin" / "python"
    assert install_groups.python_of(one, base, use_current=True) == Path(sys.executable)
    wants(tmp_path, "one", "roof")
    assert "is not up to date" in str(install_groups.why_missing(one, base))


def test_only_this_package_is_installed_when_only_it_changed(tmp_path, base, messages, ours, how):
    wanted = group(tmp_path, one=["wall"])
    install_groups.install(wanted, base, messages.append, installer=how, own=ours)
    there = (base / "venv" / "stones" / "pyvenv.cfg").stat().st_mtime_ns
    changed = own(tmp_path / "own", "print('changed')")
    assert install_groups.install(wanted, base, messages.append, own=changed)
    assert (base / "venv" / "stones" / "pyvenv.cfg").stat().st_mtime_ns == there
    words = [base / "venv" / "stones" / "bin" / "python", "-I", "-m", "injector"]
    assert subprocess.check_output(words, text=True) == "changed\n"
    assert not install_groups.install(wanted, base, messages.append, own=changed)


def test_another_architecture_is_another_environment(tmp_path, base, messages, ours):
    wanted = group(tmp_path, one=["wall"])
    install_groups.install(wanted, base, messages.append, own=ours)
    for_cuda = InstallGroup("stones", "cuda", wanted.required)
    assert install_groups.work_left(for_cuda, base, ours).why == "it is for cpu"


def test_where_packages_are_looked_for_is_locked_too(tmp_path, base, messages, ours, how, house):
    elsewhere = tmp_path / "one" / "elsewhere"
    wheel(elsewhere, "door", "1.0")
    wanted = group(tmp_path, one=["--find-links elsewhere", "door"])
    for _ in range(2):
        install_groups.install(wanted, base, messages.append, installer=how, own=ours, force=True)
        assert record(base)["packages"]["door"] == "1.0"
    assert f"--find-links {elsewhere}" in (base / "venv" / "stones.lock.txt").read_text()


def test_several_at_once_make_it_once(tmp_path, base, messages, ours):
    wanted = group(tmp_path, one=["wall"])
    made = []

    def install():
        made.append(install_groups.install(wanted, base, messages.append, own=ours))

    threads = [threading.Thread(target=install) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, True]


def test_no_one_changes_an_environment_that_is_in_use(tmp_path, base, messages, ours):
    wanted = group(tmp_path, one=["wall"])
    install_groups.install(wanted, base, messages.append, own=ours)
    done = threading.Event()

    def change():
        install_groups.install(wanted, base, messages.append, own=ours, force=True)
        done.set()

    with install_groups.keeping("stones", base, messages.append):
        with install_groups.keeping("stones", base, messages.append):
            changing = threading.Thread(target=change)
            changing.start()
            until(lambda: any("waiting for process" in line for line in messages))
        assert not done.is_set()
    changing.join()
    assert done.is_set()


def until(condition):
    end = time.monotonic() + SHORT_OF_TIME
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


HOLDER = """
import sys
from pathlib import Path
from injector.suite.environments.commands import call, locked

with locked(Path(sys.argv[1]), "it", print):
    call(["sh", "-c", "echo $$ > $0; while [ -e $0 ]; do sleep 0.05; done", sys.argv[2]])
"""


def test_what_a_killed_installer_left_running_is_waited_for(tmp_path):
    lock, messages = tmp_path / "lock", []
    running = tmp_path / "running"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock, running],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    until(lambda: running.exists() and running.read_text())
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    got = threading.Event()

    def take():
        with commands.locked(lock, "it", messages.append):
            got.set()

    taking = threading.Thread(target=take)
    taking.start()
    until(lambda: messages)
    assert not got.is_set()
    running.unlink()
    taking.join()
    assert got.is_set()


def test_an_environment_whose_python_is_gone(tmp_path, base, messages, ours):
    wanted = group(tmp_path, one=["wall"])
    install_groups.install(wanted, base, messages.append, own=ours)
    (base / "venv" / "stones" / "bin" / "python").unlink()
    assert install_groups.work_left(wanted, base, ours).why.startswith("its Python, ")


def test_uv_is_an_error_where_it_was_requested_and_is_not(
    tmp_path, base, messages, ours, monkeypatch
):
    monkeypatch.setattr(installers, "find_uv", lambda: None)
    with pytest.raises(Failed, match="there is no uv on this machine"):
        install_groups.install(
            group(tmp_path, a=["wall"]), base, messages.append, installer="uv", own=ours
        )
    assert installers.choose_installer() == "pip"


# --- which files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "arch", "expected"),
    [
        (["requirements.txt", "requirements.cuda.txt"], "cuda", "requirements.cuda.txt"),
        (["requirements.txt", "requirements.cuda.txt"], "cpu", "requirements.txt"),
        (["requirements.in", "requirements.cuda.txt"], "rocm", "requirements.in"),
        (["requirements.in", "requirements.txt"], "xpu", "requirements.txt"),
        ([], "cpu", None),
    ],
)
def test_the_file_of_the_architecture_comes_first(tmp_path, base, files, arch, expected):
    for name in files:
        (tmp_path / name).write_text("")
    found = requirements.requirements_of(benchmark(tmp_path, definition=str(tmp_path)), arch, base)
    assert [file.name for file in found.files] == ([expected] if expected else [])


def test_files_can_be_named(tmp_path, base):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("")
    given = {"cuda": "a.txt", "default": ["b.txt", "c.txt"], "packages": ["stone==1.0"]}
    bench = benchmark(tmp_path, requirements=given, origin={"package": "wall==1.0"})
    assert [file.name for file in requirements.requirements_of(bench, "cuda", base).files] == [
        "a.txt"
    ]
    plain = requirements.requirements_of(bench, "cpu", base)
    assert [file.name for file in plain.files] == ["b.txt", "c.txt"]
    assert plain.lines == ("wall==1.0", "stone==1.0")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("no.txt", "there is no file"),
        (1, "there is no file .*/1"),
        ({"cpu": 1.5}, r"there is no file .*/1\.5"),
        ({"cuda": "a.txt"}, "says nothing for cpu, only for cuda"),
    ],
)
def test_requirements_that_are_not_there(tmp_path, base, given, says):
    with pytest.raises(SuiteError, match=says):
        requirements.requirements_of(benchmark(tmp_path, requirements=given), "cpu", base)


# --- the current environment ------------------------------------------------------------------------


def test_what_this_environment_lacks_is_reported(tmp_path):
    lines = [
        "pytest",
        "nonsuch==1.0",
        "PyYAML==0.1",
        'absent; python_version < "3"',
        "hypothesis>=1  # any",
        "-e .",
    ]
    bench = {name: wants(tmp_path, name, *lines) for name in ("one", "two")}
    first, second = requirements.missing_packages(bench)
    assert first == "nonsuch==1.0 is not installed (for one, two)"
    assert second.startswith("pyyaml is ") and second.endswith("not ==0.1 (for one, two)")


def test_constraints_beside_definitions_say_versions_and_places(
    tmp_path, base, messages, ours, how
):
    """`constraints/ARCH.txt`: nothing is required by it; an index that it names is looked into."""
    vendor = tmp_path / "vendor"
    wheel(vendor, "stone", "1.0+rocm1")
    there = tmp_path / "benchmarks" / "one"
    there.mkdir(parents=True)
    (there / "benchmark.yaml").write_text("run: x.py\n")
    (there / "requirements.txt").write_text("stone==1.0\n")
    constraints = there.parent / "constraints"
    constraints.mkdir()
    lines = f"--find-links {vendor}\nstone==1.0+rocm1\nroof==1.0\n"
    (constraints / "rocm.txt").write_text(lines)
    one = benchmark(tmp_path, "one", definition=str(there), install_group="stones")
    found = {}
    for arch, version in (("cpu", "1.0"), ("rocm", "1.0+rocm1")):
        required = requirements.requirements_of(one, arch, base)
        assert [line.project for line in required.packages()] == ["stone"]
        found[arch] = required.digest
        bench = InstallGroup("stones", arch, {"one": required})
        install_groups.install(bench, base, messages.append, installer=how, own=ours)
        assert record(base)["packages"] == {"overlay-injector": "0.0.1", "stone": version}
        install_groups.install(bench, base, messages.append, installer=how, own=ours, force=True)
        assert record(base)["packages"]["stone"] == version  # from its lock
    assert found["cpu"] != found["rocm"]
    before = found["rocm"]
    (constraints / "rocm.txt").write_text(lines + "# another\n")
    assert requirements.requirements_of(one, "rocm", base).digest != before

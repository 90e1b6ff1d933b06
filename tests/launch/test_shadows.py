"""Which neighbours of a program hide modules of the standard library from us."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from injector.launch import shadows


@pytest.mark.parametrize("entry", ["ast.py", "json.pyc", "re.cpython-311-x86_64-linux-gnu.so"])
def test_modules_do(entry, tmp_path):
    (tmp_path / entry).touch()
    assert shadows.names(str(tmp_path)) == {entry.partition(".")[0]}


def test_packages_do(tmp_path):
    (tmp_path / "inspect").mkdir()
    (tmp_path / "inspect" / "__init__.py").touch()
    assert shadows.names(str(tmp_path)) == {"inspect"}


def test_folders_that_are_no_packages_do_not(tmp_path):
    """Python takes the library's module, which comes later on the path, as this very test shows."""
    (tmp_path / "wave").mkdir()
    (tmp_path / "wave" / "noise.py").touch()
    (tmp_path / "code").touch()
    assert shadows.names(str(tmp_path)) == set()
    seen = subprocess.run(
        [sys.executable, "-c", "import wave; print(wave.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not seen.stdout.startswith(str(tmp_path))


@pytest.mark.parametrize("has_voirfiles", [True, False])
def test_only_voirfiles_request_streams(has_voirfiles, tmp_path):
    package = Path(shadows.__file__).parents[1]
    script = (
        "import sys; from injector.launch import shadows; "
        f"shadows.import_all({str(package)!r}, {has_voirfiles}); print('giving' in sys.modules)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", script], cwd=package.parent, capture_output=True, text=True
    )
    assert seen.stdout.strip() == str(has_voirfiles)


@pytest.mark.parametrize("entry", ["random.csv", "calendar.tar.gz", "train.py", "sys.py"])
def test_other_files_do_not(entry, tmp_path):
    (tmp_path / entry).touch()
    assert shadows.names(str(tmp_path)) == set()


def test_what_no_one_imports_is_not_hidden(tmp_path):
    (tmp_path / "test").mkdir()
    assert shadows.names(str(tmp_path)) == set()


def test_a_folder_that_is_not_there(tmp_path):
    assert shadows.names(str(tmp_path / "gone")) == set()

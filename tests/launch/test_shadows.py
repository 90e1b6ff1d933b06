"""Which neighbours of a program hide modules of the standard library from us."""

from __future__ import annotations

import pytest

from injector.launch import shadows


@pytest.mark.parametrize("entry", ["ast.py", "json.pyc", "re.cpython-311-x86_64-linux-gnu.so"])
def test_modules_do(entry, tmp_path):
    (tmp_path / entry).touch()
    assert shadows.names(str(tmp_path)) == {entry.partition(".")[0]}


def test_packages_do(tmp_path):
    (tmp_path / "inspect").mkdir()
    assert shadows.names(str(tmp_path)) == {"inspect"}


@pytest.mark.parametrize("entry", ["random.csv", "calendar.tar.gz", "train.py", "sys.py"])
def test_other_files_do_not(entry, tmp_path):
    (tmp_path / entry).touch()
    assert shadows.names(str(tmp_path)) == set()


def test_what_no_one_imports_is_not_hidden(tmp_path):
    (tmp_path / "test").mkdir()
    assert shadows.names(str(tmp_path)) == set()


def test_a_folder_that_is_not_there(tmp_path):
    assert shadows.names(str(tmp_path / "gone")) == set()

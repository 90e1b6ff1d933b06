"""Whether there may be an accelerator: by device files, and by what the environment hides."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from injector.monitor import presence


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with these device files, and the system it runs."""

    def made(*files, system="Linux", machine="x86_64"):
        for file in ("null", *files):
            path = tmp_path / "dev" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        folders = {str(tmp_path) + folder: names for folder, names in presence._FOLDERS.items()}
        monkeypatch.setattr(presence, "_FOLDERS", folders)
        told = SimpleNamespace(sysname=system, machine=machine)
        monkeypatch.setattr(os, "uname", lambda: told)

    return made


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((), False),
        (("net/tun", "dri/card0"), False),
        (("nvidia0", "nvidiactl"), True),
        (("kfd",), True),
        (("dri/renderD128",), True),
        (("accel/accel0",), True),
        (("dxg",), True),
    ],
)
def test_device_files(machine, files, expected):
    machine(*files)
    assert presence.accelerator({}) is expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("0,1", True),
        ("GPU-2f", True),
        ("", False),
        ("-1", False),
        (" -1 ", False),
        ("NoDevFiles", False),
    ],
)
def test_what_the_environment_hides(machine, listed, expected):
    machine("nvidia0")
    assert presence.accelerator({"CUDA_VISIBLE_DEVICES": listed}) is expected


@pytest.mark.parametrize(("kind", "expected"), [("arm64", True), ("x86_64", False)])
def test_other_systems(machine, kind, expected):
    machine(system="Darwin", machine=kind)
    assert presence.accelerator({}) is expected


def test_tests_say_it_themselves(machine):
    machine("nvidia0")
    assert presence.accelerator({presence.SWITCH: "0"}) is False
    machine()
    assert presence.accelerator({presence.SWITCH: "1", "CUDA_VISIBLE_DEVICES": ""}) is True

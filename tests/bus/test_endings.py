"""How processes ended, from all who may know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raw import SECOND, event, gather, process, write_log


def entry(tmp_path: Path, **options: Any) -> dict[str, Any]:
    """What run.json says of the process 2, which process 1 has started."""
    return gather(tmp_path, **options)["processes"][1]


def write(
    tmp_path: Path, *sentence: dict[str, Any], parent: tuple[dict[str, Any], ...] = ()
) -> None:
    write_log(tmp_path, "h.1", [process(1, 100.0, SECOND), *parent])
    write_log(tmp_path, "h.2", [process(2, 101.0, 2 * SECOND), *sentence])


def monitor(tmp_path: Path, *records: dict[str, Any], host: str = "h") -> None:
    lines = [process(9, 100.0, SECOND), *records]
    lines[0]["data"]["host"] = host
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "raw" / f"{host}.9.monitor").write_text(text)


def test_no_one_knows(tmp_path: Path) -> None:
    write(tmp_path)
    found = entry(tmp_path)
    assert (found["ended"], found["exit"], found["gone"], found["error"]) == (False,) + (None,) * 3


def test_its_own_report(tmp_path: Path) -> None:
    write(tmp_path, event("end", {"code": 3}, 3 * SECOND))
    assert entry(tmp_path)["exit"] == {"code": 3, "signal": None}


def test_a_goodbye_alone_says_nothing_of_how(tmp_path: Path) -> None:
    write(tmp_path, event("end", {}, 3 * SECOND))
    found = entry(tmp_path)
    assert (found["ended"], found["exit"]) == (True, None)


def test_an_exception_that_no_one_caught(tmp_path: Path) -> None:
    error = {"type": "ValueError", "message": "x" * 1000, "trace": ""}
    write(tmp_path, event("error", error, 3 * SECOND), event("end", {}, 3 * SECOND))
    found = entry(tmp_path)
    assert found["exit"] == {"code": 1, "signal": None}
    assert found["error"].startswith("ValueError: xxx") and len(found["error"]) == 300


def test_the_launcher_reports(tmp_path: Path) -> None:
    write(tmp_path, parent=(event("exited", {"pid": 2, "code": -9}, 3 * SECOND),))
    found = entry(tmp_path)
    assert (found["exit"], found["gone"]) == ({"code": None, "signal": 9}, None)
    kinds = [json.loads(line)["event"] for line in (tmp_path / "x.D0.data").open()]
    assert kinds == ["config", "meta", "start", "end"]


def test_the_monitor_saw_it(tmp_path: Path) -> None:
    write(tmp_path)
    monitor(tmp_path, event("exit", {"pid": 2, "code": 4}, 6 * SECOND))
    found = entry(tmp_path)
    assert (found["exit"], found["gone"]) == ({"code": 4, "signal": None}, 105.0)


def test_the_monitor_saw_only_that_it_was_gone(tmp_path: Path) -> None:
    write(tmp_path, event("end", {"code": 7}, 3 * SECOND))
    monitor(tmp_path, event("exit", {"pid": 2, "code": None}, 6 * SECOND))
    found = entry(tmp_path)
    assert (found["exit"], found["gone"]) == ({"code": 7, "signal": None}, 105.0)


def test_another_hosts_process_of_that_number(tmp_path: Path) -> None:
    write(tmp_path)
    monitor(tmp_path, event("exit", {"pid": 2, "code": 4}, 6 * SECOND), host="other")
    assert entry(tmp_path)["exit"] is None


def test_a_number_that_comes_back(tmp_path: Path) -> None:
    write(tmp_path)
    write_log(tmp_path, "h.2.1", [process(2, 110.0, 11 * SECOND)])
    first = event("exit", {"pid": 2, "code": 4}, 6 * SECOND)
    monitor(tmp_path, first, event("exit", {"pid": 2, "code": -9}, 20 * SECOND))
    exits = [found["exit"] for found in gather(tmp_path)["processes"][1:]]
    assert exits == [{"code": 4, "signal": None}, {"code": None, "signal": 9}]


def test_what_was_left_to_the_supervisor(tmp_path: Path, monkeypatch: Any) -> None:
    import os

    write(tmp_path)
    host = "h"
    real = os.uname()
    named = os.uname_result((real[0], host, *real[2:]))
    monkeypatch.setattr(os, "uname", lambda: named)
    assert entry(tmp_path, exits={2: -15})["exit"] == {"code": None, "signal": 15}


def test_garbage_of_a_monitor(tmp_path: Path) -> None:
    write(tmp_path)
    odd = [event("exit", {"pid": "2", "code": "x"}, 0), event("exit", None, 0)]
    monitor(tmp_path, *odd, event("exit", {}, 0))
    assert entry(tmp_path)["exit"] is None

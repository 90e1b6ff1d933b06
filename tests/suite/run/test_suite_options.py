"""``voir: options:`` of a suite reach the voirfiles that declare them, and ``inject run``."""

from __future__ import annotations

import json

PROGRAM = """
import sys
for i in range(9):
    x = i
print("program", sys.argv[1:])
"""
MILABENCH = """
from dataclasses import dataclass
from voir import configurable

@dataclass
class Options:
    stop: int = 60
    skip: int = 5
    interval: str = "1s"
    gpu_poll: int = 3
    dash: bool = False

@configurable
def instrument_main(ov, options: Options):
    yield ov.phases.finalize
    print("one", options)
"""
SECOND = """
def instrument_second(ov):
    ov.argparser.add_argument("--stop", type=float)
    yield ov.phases.finalize
    print("two", ov.options.stop)
"""
GIVEN = {"stop": 3, "skip": 1, "interval": "2s", "gpu_poll": 7, "max_duration": "1m"}
HEARD = "one Options(stop=3, skip=1, interval='2s', gpu_poll=7, dash={})"


def test_each_voirfile_that_declares_an_option_gets_it(suites):
    for name, text in {"one.py": MILABENCH, "two.py": SECOND}.items():
        (suites.folder / name).write_text(text)
    run = suites.program("main.py", PROGRAM)
    common = {"run": run, "argv": {"--stop": 9, "--interval": "x"}}
    path = suites.write(
        {
            "ours": {**common, "voir": {"options": GIVEN}},
            "one": {**common, "voirfile": "one.py", "voir": {"options": {**GIVEN, "dash": True}}},
            "both": {**common, "voirfile": ["one.py", "two.py"], "voir": {"options": GIVEN}},
            "none": {**common, "voirfile": ["one.py", "two.py"]},
        }
    )
    done = suites.call("run", path)
    assert done.returncode == 0, done.stderr
    message, limits = {}, {}
    for name in ("ours", "one", "both", "none"):
        folder = suites.run() / "jobs" / f"{name}.R0.D0"
        program, *message[name] = (folder / "stdout").read_text().splitlines()
        assert program == "program ['--stop', '9', '--interval', 'x']"
        limits[name] = json.loads((folder / "run.json").read_text())["limits"]
        limits[name].pop("timeout")
    given = {"stop": 3, "skip": 1, "interval": 7, "max_duration": 60}
    assert message == {
        "ours": [],
        "one": [HEARD.format(True)],
        "both": [HEARD.format(False), "two 3.0"],
        "none": ["one Options(stop=60, skip=5, interval='1s', gpu_poll=3, dash=False)", "two None"],
    }
    assert limits == {"ours": given, "one": given, "both": given, "none": {}}

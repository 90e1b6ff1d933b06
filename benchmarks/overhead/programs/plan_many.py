"""Seconds of processor time that reading and planning a suite takes that expands to so many jobs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

SUITE = """\
many:
  matrix:
    lr: {lr}
    batch: {batch}
    width: [64, 128, 192, 256, 320, 384, 448, 512, 576, 640]
    depth: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  job:
    name: "many-{{lr}}-{{batch}}-{{width}}-{{depth}}"
    run: train.py
    max_duration: 60
    tags: [one, two]
    voir: {{options: {{stop: 10, skip: 5}}}}
    argv:
      --lr: "{{lr}}"
      --batch-size: "{{batch}}"
      --width: "{{width}}"
      --depth: "{{depth}}"
      --out: "{{out}}/model"
"""


def main(jobs: int) -> None:
    from injector.suite.config import load
    from injector.suite.environments import setup
    from injector.suite.plan import machine, planner

    side = round((jobs / 100) ** 0.5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.yaml")
        Path(folder, "train.py").touch()
        path.write_text(SUITE.format(lr=list(range(side)), batch=list(range(1, side + 1))))
        before = process_time()
        here = machine.find_machine("cpu:1")
        suite = load(path, here.facts())
        base = Path(folder, "base")
        stands_on = setup.resources_below(base, True)
        wish = planner.PlanOptions(f"{base}/runs/many")
        made = planner.plan_suite(suite, here, str(base), stands_on, wish)
        took = process_time() - before
    assert len(made.jobs) == jobs, len(made.jobs)
    print(took)


main(int(sys.argv[1]))

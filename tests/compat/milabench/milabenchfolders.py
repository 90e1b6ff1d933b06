"""A folder of runs as milabench leaves it, always the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

UNIX = 1_744_736_258.0
STDERR = [
    "Traceback (most recent call last):\n",
    '  File "main.py", line 3, in <module>\n',
    "    main()\n",
    "RuntimeError: no such kernel\n",
]


def config(name: str, device: int | None = None, **more: Any) -> dict[str, Any]:
    """What the first event says; a job over both devices where none is named."""
    tag = [name, "0" if device is None else f"D{device}"]
    told: dict[str, Any] = {"name": name, "group": name, "tag": tag, "enabled": True, "weight": 1.0,
                            "run_name": "toy.2025-04-15_11:49:00", "num_machines": 1}  # fmt: skip
    if device is None:
        told.update(plan={"method": "njobs", "n": 1}, devices=[0, 1])
    else:
        told.update(plan={"method": "per_gpu"}, device=device, devices=[device])
    return {**told, **more}


def write(
    path: Path,
    config: dict[str, Any],
    rates: Iterable[float],
    *,
    seed: int = 0,
    code: int = 0,
    stop: bool = False,
    losses: Iterable[float] = (),
    stderr: Iterable[str] = (),
    end: bool = True,
    samples: int = 8,
    described: int = 1,
) -> None:
    """One ``.data`` file, with samples of both devices; ``described``: how many the machine has."""
    noise = random.Random(seed)
    told: list[tuple[str, Any, str | None]] = [("config", config, None)]
    gpus = {str(n): {"device": n, "product": "NVIDIA H1", "memory": {"used": 1.0, "total": 81559.0}}
            for n in range(described)}  # fmt: skip
    system = {"DRIVER_VERSION": "560.35.03"}
    meta = {"cpu": {"count": 48, "brand": "Xeon"}, "os": {"nodename": "n7", "sysname": "Linux"},
            "accelerators": {"arch": "cuda", "gpus": gpus, "system": system},
            "milabench": {"tag": "v1.1.0"}, "pytorch": {"torch": "2.6.0+cu126"}}  # fmt: skip
    told += [("meta", meta, "data"), ("start", {"command": ["voir"], "time": UNIX}, None)]
    told += [("phase", {"name": "run_script"}, "data")]
    told += [("line", line, "stderr") for line in stderr]
    for second in range(samples):
        load = 0.0 if second == 0 else noise.random()
        state = {
            str(n): {"memory": [1000.0 + noise.randrange(20_000), 81559.0], "load": load,
                     "temperature": 40, "power": 100 + 300 * noise.random()}
            for n in (0, 1)
        }  # fmt: skip
        sample = {"task": "main", "time": UNIX + 10 + second * 1.5, "gpudata": state}
        told.append(("data", sample, "data"))
    told += [("data", {"task": "train", "loss": loss}, "data") for loss in losses]
    told += [
        ("data", {"task": "train", "rate": rate, "units": "items/s"}, "data") for rate in rates
    ]
    told += [("data", {"task": "early_stop", "progress": [8, 8]}, "data")]
    told += [("stop", None, "data")] if stop else []
    if end:
        told.append(("end", {"command": ["voir"], "time": UNIX + 60, "return_code": code}, None))
    lines = [json.dumps({"event": e, "data": d, "pipe": p}) + "\n" for e, d, p in told]
    path.write_text("".join(lines))


def folder(path: Path) -> Path:
    """Seven benchmarks; of an eighth, ``never``, there is nothing."""
    path.mkdir(parents=True)
    noise = random.Random(7)

    def rates(n: int, about: float) -> list[float]:
        return [about * noise.uniform(0.8, 1.2) for _ in range(n)]

    for device in (0, 1):
        write(path / f"alpha.D{device}.data", config("alpha", device), rates(12, 100), seed=device,
              described=2)  # fmt: skip
    for job in ("R0", "R1"):
        write(path / f"repeats.D0.{job}.data", config("repeats", 0, weight=2.0), rates(9, 40),
              seed=ord(job[1]))  # fmt: skip
    write(path / "jobs-gpus.0.data", config("jobs-gpus"), rates(8, 1000), seed=3, code=1, stop=True,
          described=2)  # fmt: skip
    write(path / "half.D0.data", config("half", 0), rates(3, 10), seed=4, code=1, stderr=STDERR,
          described=2)  # fmt: skip
    write(path / "half.D1.data", config("half", 1), rates(20, 10), seed=5, described=2)
    write(path / "nan.D0.data", config("nan", 0), rates(6, 10), seed=6,
          losses=[1.0, float("nan")])  # fmt: skip
    write(path / "few.D0.data", config("few", 0, weight=3.0), rates(4, 7), seed=8)
    write(path / "silent.D0.data", config("silent", 0), [], seed=9)
    return path

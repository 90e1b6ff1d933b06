"""What the trainer libraries send to a device; torch's device without memory stands for one."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
from trained import run

PROGRAM = """
import torch

batch = {"x": torch.zeros(4, 3), "y": [torch.zeros(4), torch.zeros(2)]}
"""
LOOP = """
from {module} import {function}

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(5):
    {function}(batch, torch.device("cpu"))
    sent = {function}(batch, torch.device("meta"))
    assert sent["x"].device.type == "meta"
    model(batch["x"]).sum().backward()
    optimizer.step()
"""

SENDERS = [
    ("accelerate.utils", "send_to_device"),
    ("lightning.fabric.utilities", "move_data_to_device"),
    ("ignite.utils", "convert_tensor"),
]


def test_transfers_are_seen_and_the_host_is_none(tmp_path):
    """Those of one library after the other, in one program."""
    there = [
        (module, function)
        for module, function in SENDERS
        if importlib.util.find_spec(module.partition(".")[0]) is not None
    ]
    if not there:
        pytest.skip("none of these libraries is installed")
    loops = [LOOP.format(module=module, function=function) for module, function in there]
    (tmp_path / "main.py").write_text(PROGRAM + "".join(loops))
    ran = run(tmp_path, str(tmp_path / "main.py"))
    assert ran.exit == 0, ran.err
    [process] = ran.processes.values()
    assert Counter(span.site["place"]["text"] for span in process.of("h2d")) == {
        f'sent = {function}(batch, torch.device("meta"))': 5 for _, function in there
    }
    assert ran.steps() == [[5]] * len(there)

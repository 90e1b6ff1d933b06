"""What the trainer libraries send to a device; torch's device without memory stands for one."""

from __future__ import annotations

import importlib.util

import pytest
from trained import run

PROGRAM = """
import torch
from {module} import {function} as send

batch = {{"x": torch.zeros(4, 3), "y": [torch.zeros(4), torch.zeros(2)]}}
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(5):
    send(batch, torch.device("cpu"))
    sent = send(batch, torch.device("meta"))
    assert sent["x"].device.type == "meta"
    model(batch["x"]).sum().backward()
    optimizer.step()
"""

SENDERS = [
    ("accelerate.utils", "send_to_device"),
    ("lightning.fabric.utilities", "move_data_to_device"),
    ("ignite.utils", "convert_tensor"),
]


@pytest.mark.parametrize(("module", "function"), SENDERS)
def test_transfers_are_seen_and_the_host_is_none(module, function, tmp_path):
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    (tmp_path / "main.py").write_text(PROGRAM.format(module=module, function=function))
    ran = run(tmp_path, str(tmp_path / "main.py"))
    assert ran.exit == 0, ran.err
    [process] = ran.processes.values()
    spans = process.of("h2d")
    assert len(spans) == 5
    assert {span.site["place"]["text"] for span in spans} == {
        'sent = send(batch, torch.device("meta"))'
    }
    assert ran.steps() == [[5]]

"""fastai's own optimizers: by a double, with the classes and methods of fastai 2.8.

fastai itself asks for torchvision, whose builds for a CPU go with one version of PyTorch each.
"""

from __future__ import annotations

from trained import needs, run

needs("torch")

OPTIMIZERS = """
class Optimizer:
    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr
    def zero_grad(self):
        for p in self.params:
            p.grad = None
    def step(self, closure=None):
        for p in self.params:
            p.data.add_(p.grad.data, alpha=-self.lr)

class Lookahead(Optimizer):
    def __init__(self, opt):
        self.opt = opt
    def zero_grad(self):
        self.opt.zero_grad()
    def step(self, closure=None):
        self.opt.step()
"""
PROGRAM = """
import sys, torch
from fastai.optimizer import Lookahead, Optimizer

model = torch.nn.Linear(8, 1)
optimizer = Optimizer(model.parameters(), 0.01)
optimizer = Lookahead(optimizer) if "lookahead" in sys.argv else optimizer
for x in torch.utils.data.DataLoader(torch.randn(40, 8), batch_size=4):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_each_update_is_one_region(tmp_path):
    (tmp_path / "fastai").mkdir()
    (tmp_path / "fastai/__init__.py").write_text("__version__ = '2.8.12'")
    (tmp_path / "fastai/optimizer.py").write_text(OPTIMIZERS)
    (tmp_path / "train.py").write_text(PROGRAM)
    for words, name in ((), "Optimizer"), (("lookahead",), "Lookahead"):
        ran = run(tmp_path, str(tmp_path / "train.py"), *words, options=("--name", name))
        [process] = ran.processes.values()
        assert (ran.exit, ran.wrong()) == (0, []), ran.err
        assert [span.site["what"] for span in process.of("optimizer")] == [name] * 10
        assert len(process.of("zero_grad")) == 10 and ran.steps() == [[10]]
        ran.folder.rename(tmp_path / name)

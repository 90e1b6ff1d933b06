"""GPyTorch's own calls of modules: by a double, with the classes and methods of GPyTorch 1.15."""

from __future__ import annotations

from trained import needs, run

from injector.analysis.summary import summarise
from injector.store.folder import open_run

needs("torch")

PACKAGE = {
    "__init__.py": "__version__ = '1.15.2'\nfrom . import likelihoods, mlls, models",
    "module.py": """
import torch

class Module(torch.nn.Module):
    def __call__(self, *inputs, **kwargs):
        return self.forward(*inputs, **kwargs)
""",
    "models/__init__.py": "from . import approximate_gp, exact_gp, model_list",
    "models/gp.py": "from ..module import Module\nclass GP(Module):\n    pass",
    "models/exact_gp.py": """
from .gp import GP

class ExactGP(GP):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)
""",
    "models/approximate_gp.py": """
from .gp import GP

class ApproximateGP(GP):
    def __call__(self, inputs, prior=False, **kwargs):
        return self.forward(inputs)
""",
    "models/model_list.py": """
from .gp import GP

class IndependentModelList(GP):
    def __call__(self, *args, **kwargs):
        return args
""",
    "likelihoods/__init__.py": "from .likelihood import Likelihood",
    "likelihoods/likelihood.py": """
from ..module import Module

class _Likelihood(Module):
    def __call__(self, input, *args, **kwargs):
        return input + self.noise

class Likelihood(_Likelihood):
    pass
""",
    "mlls.py": """
from .module import Module

class MarginalLogLikelihood(Module):
    def __init__(self, likelihood, model):
        super().__init__()
        self.likelihood, self.model = likelihood, model
    def forward(self, output, target):
        return -(self.likelihood(output) - target).square().mean()
""",
}
PROGRAM = """
import gpytorch, torch

class Process(gpytorch.models.BASE):
    def __init__(self):
        super().__init__()
        self.mean = torch.nn.Linear(2, 1)
    def forward(self, x):
        return self.mean(x).squeeze(-1)

likelihood = gpytorch.likelihoods.Likelihood()
likelihood.noise = torch.nn.Parameter(torch.zeros(()))
model = Process()
objective = gpytorch.mlls.MarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.SGD(objective.parameters(), 0.01)
x, y = torch.randn(2, 40, 2)[0], torch.randn(40)
for _ in range(8):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
model.eval(), likelihood.eval()
with torch.no_grad():
    likelihood(model(torch.randn(7, 2)))
"""


def test_calls_of_processes_are_forwards_with_their_points(tmp_path):
    for name, text in PACKAGE.items():
        (tmp_path / "gpytorch" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "gpytorch" / name).write_text(text)
    # The last one has no call of its own.
    for base in "exact_gp.ExactGP", "approximate_gp.ApproximateGP", "gp.GP":
        (tmp_path / "train.py").write_text(PROGRAM.replace("BASE", base))
        ran = run(tmp_path, str(tmp_path / "train.py"))
        assert (ran.exit, ran.wrong()) == (0, []), ran.err
        [process] = ran.processes.values()
        names = [(span.site["what"], span.site["phase"]) for span in process.of("forward")]
        trained = [("Process", "train"), ("MarginalLogLikelihood", None)]
        assert names == trained * 8 + [("Process", "eval"), ("Likelihood", "eval")]
        found = summarise(open_run(str(ran.folder))).profile
        assert [(loop.steps, loop.items_per_step) for loop in found.loops] == [(8, 40)]
        assert [(each.passes, each.batches, each.items) for each in found.evaluations] == [
            (1, 1, 7)
        ]
        assert "Process: 3 parameters" in ran.err and "MarginalLogLikelihood:" not in ran.err
        ran.folder.rename(tmp_path / base)

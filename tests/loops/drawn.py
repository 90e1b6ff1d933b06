"""Draws whole training programs, each dimension of a loop with every other one, that count what they do.

A program is made of idioms that real ones have: how batches are made, how the loop fetches them, what the
model is called with, what makes the update, where it validates. It writes the truth as those of
tests/programs/loops do (:mod:`.truth`).
"""

from __future__ import annotations

import textwrap
from random import Random
from typing import NamedTuple

HEAD = """\
import itertools
from time import perf_counter
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from parts import tell
ITEMS, COUNTS = [], dict.fromkeys(("held", "fetched", "fetches", "updates", "passes", "batches", "items"), 0)
def trained(updates):
    ITEMS.append(COUNTS["held"])
    COUNTS["updates"] += updates
    COUNTS["fetches"] += COUNTS["fetched"]
    COUNTS["held"] = COUNTS["fetched"] = 0
def make(count):
    return torch.randn(count, *SHAPE), torch.randint(0, 4, (count,))
"""

MODELS = {
    "plain": (
        "(8,)",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    def forward(self, x):
        return self.body(x)
""",
    ),
    "pictures": (
        "(1, 6, 6)",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters, self.norm, self.head = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 4)
    def forward(self, x):
        return self.head(F.relu(self.norm(self.filters(x))).mean((2, 3)))
""",
    ),
    "sequences": (
        "(5, 8)",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.head = nn.GRU(8, 6, batch_first=True), nn.Linear(6, 4)
    def forward(self, x):
        return self.head(self.memory(x)[0][:, -1])
""",
    ),
    "two": (
        "(8,)",
        """
class Net:
    def __init__(self):
        self.body, self.head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 4)
    def __call__(self, x):
        return self.head(self.body(x))  #: forward eval
    def parameters(self):
        return [*self.body.parameters(), *self.head.parameters()]
    def train(self, mode=True):
        self.body.train(mode), self.head.train(mode)
    def eval(self):
        self.train(False)
    def zero_grad(self):
        self.body.zero_grad(), self.head.zero_grad()
""",
    ),
}
"""The shape of an item, and the class."""

UNPACK = {"dicts": "x, y = batch['x'], batch['y']"}
MAKES_LOADER = {
    "tensors": "loader = DataLoader(TensorDataset(X, Y), {options})",
    "dicts": """
class Rows(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, index):
        return {{"x": X[index], "y": Y[index]}}
loader = DataLoader(Rows(), {options})
""",
    "stream": """
class Rows(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y))
loader = DataLoader(Rows(), {options})
""",
    "list": "loader = list(zip(X.split({size}), Y.split({size})))",
    "own": """
class Batches:
    def __len__(self):
        return -(-len(X) // {size})
    def __iter__(self):
        for start in range(0, len(X), {size}):
            yield X[start : start + {size}], Y[start : start + {size}]
loader = Batches()
""",
    "function": """
def get_batch():
    chosen = torch.randint(len(X), ({size},))
    return X[chosen], Y[chosen]
""",
}
OPTIMIZERS = {
    "sgd": "optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)",
    "adam": "optimizer = torch.optim.Adam(model.parameters())",
    "two": """
weights = list(model.parameters())
optimizer, second = torch.optim.SGD(weights[:2], lr=0.01), torch.optim.Adam(weights[2:])
""",
    "lbfgs": "optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=2)",
    "by hand": "",
    "gradients": "",
}
LOADERS = ("tensors", "dicts", "stream")
"""Kinds of data that PyTorch's own loader reads."""


class Dimensions(NamedTuple):
    """One choice for each dimension."""

    model: str
    data: str
    form: str
    loss: str
    optimizer: str
    structure: str
    reset: str
    accumulated: int
    validates: str
    mode: str
    validation: str
    extra: str
    count: int
    size: int
    epochs: int
    drops_last: bool

    @property
    def batches(self) -> int:
        """Batches of an epoch, as far as the loop fetches them."""
        drops = self.drops_last and self.data in LOADERS
        whole = self.count // self.size if drops else -(-self.count // self.size)
        return whole - 2 if self.extra == "break" else whole


def draw(seed: int) -> Dimensions:
    """The dimensions of program ``seed``."""
    choose = Random(seed).choice
    data = choose(("tensors", "tensors", "dicts", "stream", "list", "own", "function"))
    forms = ("for", "for", "enumerate", "zip", "islice", "next", "try", "cycle")
    optimizer = choose(("sgd", "sgd", "adam", "adam", "two", "lbfgs", "by hand", "gradients"))
    accumulates = optimizer in ("sgd", "adam")
    extras = ["", "", "teacher", "skip", "break", "item"]
    form = choose(("range", "while")) if data == "function" else choose(forms)
    accumulated = choose((1, 1, 2, 3)) if accumulates and form != "cycle" else 1
    if accumulated > 1 or form in ("while", "cycle"):
        extras.remove("skip")
    return Dimensions(
        model=choose(tuple(MODELS)),
        data=data,
        form=form,
        loss=choose(("function", "module", "by hand")),
        optimizer=optimizer,
        structure=choose(
            ("flat", "main", "epoch", "trainer", "step")[: 5 if accumulated == 1 else 4]
        ),
        reset=choose(("before", "after", "of the model")),
        accumulated=accumulated,
        validates=choose(("never", "epochs", "epochs", "steps", "around", "train set")),
        mode=choose(("decorator", "with", "inference", "eval alone", "no_grad alone")),
        validation=choose(("loader", "list", "whole")),
        extra=choose(extras),
        count=choose(range(24, 60)),
        size=choose(range(3, 8)),
        epochs=choose((1, 2, 3)),
        drops_last=choose((False, False, True)),
    )


def program(d: Dimensions) -> str:
    """The text of the program that ``d`` describes."""
    shape, model = MODELS[d.model]
    options = f"batch_size={d.size}" + (", drop_last=True" if d.drops_last else "")
    parts = [
        HEAD,
        f"SHAPE, BATCHES = {shape}, {d.batches}",
        model,
        f"X, Y = make({d.count})",
        MAKES_LOADER[d.data].format(options=options, size=d.size),
        "model = Net()\nteacher = Net()\nteacher.eval()",
        OPTIMIZERS[d.optimizer],
        "criterion = nn.CrossEntropyLoss()",
        _validation(d),
    ]
    turn = _turn(d)
    if d.structure == "step":
        parts.append(_function("train_step", "x, y", turn))
        turn = ["train_step(x, y)"]
    epoch = _loop(d, turn)
    if d.form == "cycle":
        mark = _pace(d, "loader", "io pace")
        parts.append(
            f"def forever():\n    while True:\n        for batch in loader:{mark}\n            yield batch"
        )
        parts.append("endless = forever()")
    if d.structure == "epoch":
        parts.append(_function("train_epoch", "", epoch))
        epoch = ["train_epoch()"]
    elif d.structure == "trainer":
        method = textwrap.indent(_function("run", "self", epoch), "    ")
        parts.append(f"class Trainer:\n{method}\ntrainer = Trainer()")
        epoch = ["trainer.run()"]
    parts.append(_whole(d, epoch))
    return "\n".join(part.strip("\n") for part in parts if part) + "\n"


def _function(name: str, arguments: str, lines: list[str]) -> str:
    return "\n".join([f"def {name}({arguments}):", *_in(lines)])


def _in(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _pace(d: Dimensions, of: str, words: str) -> str:
    """The mark of a line, where ``of`` ("loader", "optimizer") paces the steps or the line is a region's."""
    paced = "loader" if d.data in LOADERS else "optimizer"
    kept = [word for word in words.split() if word != "pace" or of == paced]
    if of == "loader" and paced != "loader":
        kept = []  # what no loader of PyTorch's fetches may be io or not
    return f"  #: {' '.join(kept)}" if kept else ""


def _turn(d: Dimensions) -> list[str]:
    """What a turn of the loop does with ``x`` and ``y``."""
    called = "" if d.model == "two" else "  #: forward"
    loss = {
        "function": "F.cross_entropy(out, y)",
        "module": "criterion(out, y)",
        "by hand": "-torch.log_softmax(out, 1)[torch.arange(len(y)), y].mean()",
    }[d.loss]
    forward = [f"out = model(x){called}", f"loss = {loss}  #: forward?"]
    if d.extra == "teacher":
        forward = [
            "with torch.no_grad():",
            f"    wanted = teacher(x){called}",
            *forward,
            "loss = loss + F.mse_loss(out, wanted)  #: forward?",
        ]
    after = ["print(loss.item())"] if d.extra == "item" else []
    held = 'COUNTS["held"] += len(x)'
    if d.optimizer == "lbfgs":
        closure = ["optimizer.zero_grad()", *forward, "loss.backward()  #: backward", "return loss"]
        step = f"loss = optimizer.step(closure){_pace(d, 'optimizer', 'optimizer pace')}"
        return [*_function("closure", "", closure).splitlines(), step, held, "trained(1)", *after]
    backward = "loss.backward()" if d.accumulated == 1 else f"(loss / {d.accumulated}).backward()"
    if d.optimizer in ("by hand", "gradients"):
        backward += _pace(d, "optimizer", "backward pace")
        moved = "for weight in model.parameters(): weight -= 0.01 * weight.grad"
        if d.optimizer == "gradients":
            mark = _pace(d, "optimizer", "backward pace")
            backward = f"gradients = torch.autograd.grad(loss, list(model.parameters())){mark}"
            moved = "for weight, gradient in zip(model.parameters(), gradients): weight -= 0.01 * gradient"
        update = ["with torch.no_grad():", f"    {moved}"]
        return ["model.zero_grad()", *forward, backward, *update, held, "trained(1)", *after]
    reset = "model.zero_grad()" if d.reset == "of the model" else "optimizer.zero_grad()"
    reset += "; second.zero_grad()" if d.optimizer == "two" else ""
    paces_last = _pace(d, "optimizer", "optimizer pace")
    steps = [f"optimizer.step(){paces_last}"]
    if d.optimizer == "two":
        steps = ["optimizer.step()  #: optimizer", f"second.step(){paces_last}"]
    update = [*steps, f"trained({len(steps)})"]
    backward += "  #: backward"
    if d.accumulated == 1:
        before, after_it = ([], [reset]) if d.reset == "after" else ([reset], [])
        return [*before, *forward, backward, held, *update, *after_it, *after]
    ends = f"if (number + 1) % {d.accumulated} == 0 or number + 1 == BATCHES:"
    return [*forward, backward, held, ends, *_in([*update, reset]), *after]


def _loop(d: Dimensions, turn: list[str]) -> list[str]:
    """An epoch: a loop in one of the forms around ``turn``, which may use the ``number`` of the batch."""
    unpack = UNPACK.get(d.data, "x, y = batch")
    lines = ['COUNTS["fetched"] += 1', unpack, *turn]
    if d.extra == "skip":
        lines[2:2] = ["if number % 4 == 1:", "    continue"]
    if d.validates == "steps":
        lines += ["if number % 4 == 3:", "    evaluate()"]
    if d.extra == "break":
        lines += ["if number + 1 == BATCHES:", "    break"]
    mark = _pace(d, "loader", "io pace")
    heads = {
        "enumerate": f"for number, batch in enumerate(loader):{mark}",
        "zip": f"for batch, number in zip(loader, range(1000)):{mark}",
        "islice": f"for number, batch in enumerate(itertools.islice(loader, BATCHES)):{mark}",
    }
    if d.form in heads:
        return [heads[d.form], *_in(lines)]
    if d.form == "for":
        return ["number = -1", f"for batch in loader:{mark}", *_in(["number += 1", *lines])]
    if d.form == "try":
        fetch = ["try:", f"    batch = next(batches){mark}", "except StopIteration:", "    break"]
        head = ["batches, number = iter(loader), -1", "while True:"]
        return [*head, *_in([*fetch, "number += 1", *lines])]
    if d.form == "while":
        head = ["number = -1", "while number + 1 < BATCHES:"]
        return [*head, *_in(["number += 1", "batch = get_batch()", *lines])]
    fetch = {
        "next": f"batch = next(batches){mark}",
        "cycle": "batch = next(endless)",
        "range": "batch = get_batch()",
    }[d.form]
    head = ["batches = iter(loader)"] if d.form == "next" else []
    return [*head, "for number in range(BATCHES):", *_in([fetch, *lines])]


def _validation(d: Dimensions) -> str:
    """The function that evaluates, and its data."""
    if d.validates == "never":
        return ""
    parts = ["VX, VY = make(22)"]
    if d.validates == "train set" and d.data != "function":
        head, unpack = "for batch in loader:  #: eval", UNPACK.get(d.data, "x, y = batch")
    else:
        made = {
            "loader": "valid = DataLoader(TensorDataset(VX, VY), 8)",
            "list": "valid = list(zip(VX.split(8), VY.split(8)))",
            "whole": "valid = [(VX, VY)]",
        }
        parts.append(made[d.validation])
        head, unpack = "for batch in valid:  #: eval", "x, y = batch"
    counted = 'COUNTS["batches"] += 1; COUNTS["items"] += len(x)'
    inner = [unpack, "right += (model(x).argmax(1) == y).sum().item()  #: eval", counted]
    body = ["right = 0", head, *_in(inner)]
    around = {
        "with": "with torch.no_grad():",
        "inference": "with torch.inference_mode():",
        "no_grad alone": "with torch.no_grad():",
    }
    if d.mode in around:
        body = [around[d.mode], *_in(body)]
    if d.mode != "no_grad alone":
        body = ["model.eval()", *body, "model.train()"]
    body += ['COUNTS["passes"] += 1', "return right"]
    parts.append("@torch.no_grad()" if d.mode == "decorator" else "")
    return "\n".join([*filter(None, parts), _function("evaluate", "", body)])


def _whole(d: Dimensions, epoch: list[str]) -> str:
    """The training, and what it tells."""
    lines = list(epoch)
    if d.validates in ("epochs", "train set"):
        lines.append("evaluate()")
    # Batches that are left at the end of an epoch are no step's.
    lines.append('COUNTS["fetched"] = 0')
    whole = ["began = perf_counter()", f"for epoch in range({d.epochs}):", *_in(lines)]
    if d.validates == "around":
        whole = ["evaluate()", *whole, "evaluate()"]
    paced = "loader" if d.data in LOADERS else "optimizer"
    has_updates = d.optimizer not in ("by hand", "gradients")
    loop = {
        "steps": "len(ITEMS)",
        "items": "ITEMS",
        "fetches": 'COUNTS["fetches"] / len(ITEMS)' if paced == "loader" else "None",
        "updates": 'COUNTS["updates"] / len(ITEMS)' if has_updates else "None",
        "seconds": "seconds",
        "naps": "{}",
        "paced": repr(paced),
    }
    told = ", ".join(f"{name}={value}" for name, value in loop.items())
    if d.validates != "never":
        evaluation = "passes=COUNTS['passes'], batches=COUNTS['batches'], items=COUNTS['items']"
        whole.append("seconds = perf_counter() - began")
        whole.append(f"evaluation = dict({evaluation}, seconds=10 * seconds, least=0, inside=True)")
        whole.append(f"tell(dict({told}), evaluation=evaluation, verdict=None)")
    else:
        whole.append("seconds = perf_counter() - began")
        whole.append(f"tell(dict({told}), verdict=None)")
    if d.structure == "flat":
        return "\n".join(whole)
    return _function("main", "", whole) + "\nmain()"

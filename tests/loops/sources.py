"""Draws training programs by where their batches come from: each way to draw with each way to evaluate.

A program counts its steps, items, epochs and evaluations, and writes them to the file of LOOP_TRUTH.
"""

from __future__ import annotations

from random import Random
from textwrap import indent
from typing import NamedTuple

from endless_loader import ENDLESS

HEAD = """
import itertools, json, os, queue, random, threading
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

COUNTS = dict.fromkeys(("steps", "epochs", "passes", "batches", "evaluated"), 0)
ITEMS, HELD = [], []

class Thread(threading.Thread):
    def __init__(self, batches):
        super().__init__(daemon=True)
        self.queue, self.batches = queue.Queue(2), batches
        self.start()
    def run(self):
        for batch in self.batches:
            self.queue.put(batch)
        self.queue.put(None)
    def __iter__(self):
        return self
    def __next__(self):
        batch = self.queue.get()
        if batch is None:
            raise StopIteration
        return batch

class InThread(DataLoader):
    def __iter__(self):
        return Thread(super().__iter__())

class Rows(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y))

class Moved:
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        for x, y in self.loader:
            yield x * 1.0, y

class Ahead:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.draw()
    def draw(self):
        self.batch = next(self.batches, None)
    def next(self):
        batch = self.batch
        if batch is not None:
            self.draw()
        return batch

def forever(loader):
    while True:
        yield from loader

def batches_of(loader):
    for x, y in loader:
        yield x.float(), y

X, Y = torch.randn({count}, 6), torch.randint(0, 3, ({count},))
data, held, other = (TensorDataset(torch.randn(n, 6), torch.randint(0, 3, (n,))) for n in ({count}, 20, 12))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
teacher, criterion = nn.Linear(6, 3).eval(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
beside = DataLoader(data, {size})
PER_EPOCH = {per_epoch}
"""
PLAIN = "DataLoader(data, {size}, shuffle=True, drop_last={drops})"
LOADERS = {
    "in order": PLAIN,
    "stream": "DataLoader(Rows(), {size}, drop_last={drops})",
    "workers": PLAIN[:-1] + ", num_workers=1, persistent_workers=True)",
    "endless": "Endless(data, {size}, shuffle=True, drop_last={drops})",
    "in a thread": "InThread(data, {size}, shuffle=True, drop_last={drops})",
    "moved": "Moved(" + PLAIN + ")",
    "moved endless": "Moved(Endless(data, {size}, shuffle=True, drop_last={drops}))",
}
FORMS = {
    "for": "for x, y in loader:\n    {turn}",
    "enumerate": "bar = enumerate(loader)\nfor number, (x, y) in bar:\n    {turn}",
    "expression": "for x, y in ((x * 1.0, y) for x, y in loader):\n    {turn}",
    "generator": "for x, y in batches_of(loader):\n    {turn}",
    "zip": "for (x, y), _ in zip(loader, beside):\n    {turn}",
    "next": "batches = iter(loader)\nfor _ in range(PER_EPOCH):\n    x, y = next(batches)\n    {turn}",
    "look ahead": "batches = iter(loader); following = next(batches)\nwhile following is not None:\n"
    "    x, y = following\n    following = next(batches, None)\n    {turn}",
    "prefetch": "ahead = Ahead(loader); batch = ahead.next()\nwhile batch is not None:\n"
    "    x, y = batch\n    {turn}\n    batch = ahead.next()",
}
FREE = {
    "forever": ("batches = forever(%s)", "x, y = next(batches)"),
    "cycle": ("batches = itertools.cycle(%s)", "x, y = next(batches)"),
    "try": (
        "loader = %s; batches = iter(loader)",
        "try:\n    x, y = next(batches)\nexcept StopIteration:\n"
        "    batches = iter(loader); x, y = next(batches)",
    ),
}
"""What draws a batch in each turn, whatever epoch it is of: what makes it, and the turn's first lines."""
EVALUATED = {
    "loader": ("DataLoader({data}, 5)", "for x, y in given:"),
    "endless": ("Endless({data}, 5)", "for x, y in given:"),
    "list": ("list(DataLoader({data}, 5))", "for x, y in given:"),
    "moved": ("Moved(DataLoader({data}, 5))", "for x, y in given:"),
    "generator": ("DataLoader({data}, 5)", "for x, y in batches_of(given):"),
    "a few": ("DataLoader({data}, 5)", "for x, y in itertools.islice(given, 2):"),
    "slices": (
        "list(zip({data}.tensors[0].split(5), {data}.tensors[1].split(5)))",
        "for x, y in given:",
    ),
}
PLACES = {
    "never": ("", "", ""),
    "epochs": ("", "evaluate(first)", "evaluate(second)"),
    "both": ("evaluate(first)", "evaluate(first); evaluate(second)", ""),
    "steps": ("", "", "evaluate(second)"),
}
"""What is evaluated before all epochs, after each, and in the end."""
LOSSES = {
    "function": "loss = F.cross_entropy(model(x), y)",
    "module": "loss = criterion(model(x), y)",
    "teacher": "with torch.no_grad():\n    wanted = teacher(x)\n"
    "out = model(x)\nloss = F.cross_entropy(out, y) + F.mse_loss(out, wanted)",
}
TURN = """
{loss}
(loss / {each}).backward()
HELD.append(len(x))
if len(HELD) == {each}:
    optimizer.step(); optimizer.zero_grad()
    COUNTS["steps"] += 1; ITEMS.append(sum(HELD)); HELD.clear()
"""


class Source(NamedTuple):
    """One choice for each dimension."""

    source: str
    loader: str
    loss: str
    evaluated: str
    place: str
    structure: str
    count: int
    size: int
    epochs: int
    each: int
    drops: bool
    lazy: bool

    @property
    def has_epochs(self) -> bool:
        """Whether each epoch is begun by a loader: the batches that a cycle repeats are no loader's."""
        return self.source != "cycle"


def draw(seed: int) -> Source:
    """The dimensions of program ``seed``: each source comes in turn."""
    choose = Random(seed).choice
    sources = (*FORMS, *FREE)
    return Source(
        source=sources[seed % len(sources)],
        loader=choose(tuple(LOADERS)),
        loss=choose(tuple(LOSSES)),
        evaluated=choose(tuple(EVALUATED)),
        place=choose(tuple(PLACES)),
        structure=choose(("flat", "function", "class")),
        count=choose((40, 42, 48)),
        size=choose((4, 8)),
        epochs=choose((3, 4)),
        each=choose((1, 1, 2)),
        drops=choose((False, False, True)),
        lazy=choose((False, True)),
    )


def program(d: Source) -> str:
    """The text of the program that ``d`` describes."""
    per_epoch = d.count // d.size if d.drops else -(-d.count // d.size)
    kept = "None" if d.lazy else "super().__iter__()"
    # What draws in each turn needs a loader that ends: the endless one and the thread's have their own way.
    kind = "in order" if d.source in FREE or d.source in ("look ahead", "prefetch") else d.loader
    loader = LOADERS[kind].format(size=d.size, drops=d.drops)
    turn = TURN.strip().format(each=d.each, loss=LOSSES[d.loss])
    if d.place == "steps":
        turn += "\nif COUNTS['steps'] % 5 == 4 and not HELD:\n    evaluate(first)"
    if d.source in FREE:
        made, drawn = FREE[d.source]
        made, form = (
            made % loader,
            f"for _ in range(PER_EPOCH):\n{indent(drawn, '    ')}\n    {{turn}}",
        )
    else:
        made, form = f"loader = {loader}", FORMS[d.source]
    epoch = form.replace("    {turn}", indent(turn, "    "))
    before, after, end = PLACES[d.place]
    epochs = ["COUNTS['epochs'] += 1", "model.train()", epoch, after]
    whole = [
        made,
        before,
        f"for epoch in range({d.epochs}):",
        *(indent(e, "    ") for e in epochs),
        end,
    ]
    text = "\n".join(filter(None, whole))
    if d.structure == "function":
        text = f"def main():\n{indent(text, '    ')}\nmain()"
    elif d.structure == "class":
        text = f"class Trainer:\n    def fit(self):\n{indent(text, '        ')}\nTrainer().fit()"
    head = HEAD.format(count=d.count, per_epoch=per_epoch, size=d.size)
    tells = "json.dump({**COUNTS, 'items': ITEMS}, open(os.environ['LOOP_TRUTH'], 'w'))"
    return "\n".join([ENDLESS.format(kept=kept), head, _evaluation(d), text, tells]) + "\n"


def _evaluation(d: Source) -> str:
    made, head = EVALUATED[d.evaluated]
    first, second = (made.format(data=name) for name in ("held", "other"))
    return f"""
first, second = {first}, {second}
@torch.no_grad()
def evaluate(given):
    model.eval(); right = 0; COUNTS["passes"] += 1
    {head}
        right += (model(x).argmax(1) == y).sum().item()
        COUNTS["batches"] += 1; COUNTS["evaluated"] += len(x)
    model.train()
    return right
"""

"""A small training loop without a loader of PyTorch's, and what each kind of hook costs a step of it.

``train_small.py FILE PART`` writes JSON into FILE: for each kind of hook, pairs of nanoseconds of thread
CPU for a step, without it and with it, in turns within this process. PyTorch's functions are without
hooks while they have the code that their source compiles to; the loop's twin has the same text as the
loop, and no tool knows of it. PART (1: everything) shortens the blocks.
"""

import gc
import json
import sys
import time
from types import CodeType, FunctionType

import torch

STEPS, BLOCKS = 150, 40


def train(batches, model, optimizer, loss_of):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()


def plain_train(batches, model, optimizer, loss_of):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()


def hooked():
    """PyTorch's functions that have hooks, each with its code without, by what their hooks record."""
    sources, found = {}, {}
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        kind = KINDS.get(function.__module__)
        if kind and any(name.startswith("injector:") for name in function.__code__.co_names):
            codes = function, as_written(function.__code__, sources)
            found.setdefault(kind, []).append(codes)
    every = [codes for kind in found.values() for codes in kind]
    return {**found, "every": every} if every else {}


KINDS = {
    "torch.nn.modules.module": "forward",
    "torch.nn.functional": "loss",
    "torch._tensor": "gradients",
    "torch.autograd": "gradients",
    "torch.optim.optimizer": "optimizer",
    "torch.optim.sgd": "optimizer",
}
"""By module, what is recorded of what the loop calls in it."""


def as_written(code, sources):
    """The code that the source of ``code`` compiles to."""
    if code.co_filename not in sources:
        with open(code.co_filename, encoding="utf-8") as file:
            todo = [compile(file.read(), code.co_filename, "exec", dont_inherit=True)]
        sources[code.co_filename] = found = {}
        for each in todo:
            found[each.co_firstlineno, each.co_name] = each
            todo += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
    return sources[code.co_filename][code.co_firstlineno, code.co_name]


def step_time(function, arguments):
    gc.collect()
    begin = time.thread_time_ns()
    function(*arguments)
    return (time.thread_time_ns() - begin) / len(arguments[0])


def exchanged(codes):
    """Give each function its other code; the codes to exchange them back."""
    before = [(function, function.__code__) for function, _ in codes]
    for function, code in codes:
        function.__code__ = code
    return before


def pair(codes, arguments, first):
    """Without and with the hooks, beginning with the one or the other."""
    found = [0.0, 0.0]
    for with_ in (first, not first):
        before = [] if with_ else exchanged(codes)
        train(arguments[0][:50], *arguments[1:])  # the interpreter adapts to the code
        found[with_] = step_time(train, arguments)
        exchanged(before)
    return found


def twins(arguments, first):
    order = (train, plain_train) if first else (plain_train, train)
    found = {function: step_time(function, arguments) for function in order}
    return [found[plain_train], found[train]]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    file, part = sys.argv[1], float(sys.argv[2])
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(8, 16), torch.randint(0, 10, (8,))
    batches = [batch] * max(int(STEPS * part), 2)
    arguments = batches, model, optimizer, torch.nn.functional.cross_entropy
    train(*arguments)
    plain_train(*arguments)
    kinds = hooked()
    gc.collect()
    gc.freeze()  # what PyTorch has made need not be looked at before every block
    found = {name: [] for name in ("loop", *kinds)}
    for turn in range(max(int(BLOCKS * part), 1)):
        found["loop"].append(twins(arguments, turn % 2))
        for name, codes in kinds.items():
            found[name].append(pair(codes, arguments, bool(turn % 2)))
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main()

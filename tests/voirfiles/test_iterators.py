"""Classes of the program's own that give batches, one after the other: ``io`` without a voirfile."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

HEAD = """
import itertools
import torch
from torch import nn
from torch.utils.data import DataLoader

BATCHES, EPOCHS = 3, 2
data = torch.randn(BATCHES, 4, 8)
"""
ITERATORS = {
    "itself": """
class {name}:
    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == BATCHES:
            raise StopIteration
        self.at += 1
        return data[self.at - 1]
""",
    "another": """
class {name}Iterator:
    def __init__(self):
        self.rows = iter(data)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.rows)


class {name}:
    def __iter__(self):
        return {name}Iterator()
""",
}
# With the calls of `__next__` that are recorded of two epochs of three batches, which are six that give one
# and two that find none: the first call comes before the first forward or backward.
LOOPS = {
    "for": (
        """
    for epoch in range(EPOCHS):
        for x in {name}():  # io
            model(x).sum().backward()
            optimizer.step()
""",
        5,
        2,
    ),
    "enumerate": (
        """
    loader = {name}()
    for epoch in range(EPOCHS):
        for number, x in enumerate(loader):  # io
            update(model, optimizer, x)
""",
        5,
        2,
    ),
    "restart": (
        """
    it = iter({name}())
    for step in range(2 * BATCHES):
        try:
            x = next(it)  # io
        except StopIteration:
            it = iter({name}())
            x = next(it)  # io
        model(x).sum().backward()
        optimizer.step()
""",
        5,
        1,
    ),
    "around": (
        """
    batches = endless({name}())
    for step in range(2 * BATCHES):
        x = next(batches)
        model(x).sum().backward()
        optimizer.step()
""",
        5,
        1,
    ),
    "cycle": (
        """
    for step, x in enumerate(itertools.cycle({name}())):  # io, of the first pass only
        model(x).sum().backward()
        optimizer.step()
        if step + 1 == 2 * BATCHES:
            break
""",
        2,
        1,
    ),
    "accumulation": (
        """
    for epoch in range(EPOCHS):
        for x in {name}():  # io
            (model(x).sum() / 3).backward()
        optimizer.step()
""",
        5,
        2,
    ),
    "one ahead": (
        """
    it = itertools.chain({name}(), {name}())
    x = next(it)  # io
    for step in range(2 * BATCHES):
        loss = model(x).sum()
        x = next(it, None)  # io
        loss.backward()
        optimizer.step()
""",
        5,
        2,
    ),
}
HELPERS = """
def update(model, optimizer, x):
    model(x).sum().backward()
    optimizer.step()


def endless(loader):
    while True:
        yield from loader
"""


def start_of(name: str, loop: str) -> str:
    return f"""
def train_{name.lower()}():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
{loop.format(name=name)}

train_{name.lower()}()
"""


@pytest.mark.parametrize("kind", ITERATORS)
def test_each_kind_of_loop(run, kind):
    program, wanted = HEAD + HELPERS, {}
    for number, (text, fetches, ends) in enumerate(LOOPS.values()):
        name = f"Loader{number}"
        program += ITERATORS[kind].format(name=name) + start_of(name, text)
        wanted[name] = (fetches, ends)
    found = {}
    for span in run(program).only.named("io", "io.end"):
        name = span.what.removesuffix("Iterator")
        fetches, ends = found.get(name, (0, 0))
        is_end = span.region == "io.end"
        found[name] = (fetches + (not is_end), ends + is_end)
    assert found == wanted


def test_steps_stay_what_they_were(run):
    """The calls are recorded from the second fetch on, so updates pace the loop, from the first one on."""
    from injector.analysis.summary import summarise
    from injector.store.folder import open_run

    for loop, updates in (("for", 6), ("accumulation", 2)):
        text = ITERATORS["itself"].format(name="Loader") + start_of("Loader", LOOPS[loop][0])
        [found] = summarise(open_run(run(HEAD + HELPERS + text).folder)).profile.loops
        assert (found.steps, found.paced_by, found.updates_per_step) == (updates, "optimizer", 1)


OTHERS = """
class Letters:
    def __init__(self):
        self.rest = list("abcd")

    def __iter__(self):
        return self

    def __next__(self):
        if not self.rest:
            raise StopIteration
        return self.rest.pop()


class Around:
    def __iter__(self):
        self.it = iter(DataLoader(data, batch_size=None))
        return self

    def __next__(self):
        return next(self.it)


class Predicted:
    def __init__(self, model):
        self.model, self.rows = model, iter(data)

    def __iter__(self):
        return self

    def __next__(self):
        x = next(self.rows)
        with torch.no_grad():
            return self.model(x.T).T + x


class Shouting(type):
    def __getattribute__(cls, name):
        print("read", name)
        return super().__getattribute__(name)


class Unused(metaclass=Shouting):
    pass


def trained(model, optimizer, x):
    "".join(Letters())
    model(x).sum().backward()
    optimizer.step()


def main():
    model, other = nn.Linear(8, 1), nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in [*data]:
        trained(model, optimizer, x)
    for x in Around():
        trained(model, optimizer, x)
    for x in Predicted(other):
        trained(model, optimizer, x)


main()
"""


def test_only_what_the_loop_draws_from_and_does_nothing_else(run):
    """No iterator that is used in a step, none that draws from a loader, none that calls a model."""
    done = run(HEAD + OTHERS)
    assert done.out == ""
    process = done.only
    assert {span.what for span in process.named("io")} == {"DataLoader of Tensor"}
    assert len(process.named("io")) == 3


INDEXED = """
class {name}:
    def __len__(self):
        return BATCHES

    def __getitem__(self, at):
        if at >= BATCHES:
            raise IndexError
        return data[at]
"""
INDEXED_LOOPS = {
    "for": (
        """
    dataset = {name}()
    for epoch in range(EPOCHS):
        for at in range(len(dataset)):
            x = dataset[at]  # io
            model(x).sum().backward()
            optimizer.step()
""",
        5,
        0,
    ),
    "iterated": (
        """
    for epoch in range(EPOCHS):
        for number, x in enumerate({name}()):  # io
            model(x).sum().backward()
            optimizer.step()
""",
        5,
        2,
    ),
    "accumulation": (
        """
    held = {{"train": {name}()}}
    for epoch in range(EPOCHS):
        for at in range(BATCHES):
            x = held["train"][at].clone()  # io
            (model(x).sum() / 3).backward()
        optimizer.step()
""",
        5,
        0,
    ),
    "in the step": (
        """
    dataset = {name}()
    for at in [*range(BATCHES)] * EPOCHS:
        look_up(model, optimizer, dataset, at)  # io
""",
        5,
        0,
    ),
    "evaluation": (
        """
    dataset = {name}()
    for epoch in range(EPOCHS):
        for at in range(BATCHES):
            x = dataset[at]  # io
            model(x).sum().backward()
            optimizer.step()
        with torch.no_grad():
            for at in range(BATCHES):
                model.eval()(dataset[at])
            for x in DataLoader(dataset, batch_size=2):
                model(x)
        model.train()
""",
        5,
        0,
    ),
    "single examples": (
        """
    dataset = {name}()
    for step in range(2 * BATCHES):
        x = torch.stack([dataset[at] for at in range(BATCHES)])
        model(x).sum().backward()
        optimizer.step()
""",
        0,
        0,
    ),
    "parts of a batch": (
        """
    for batch in [{name}() for _ in range(2 * BATCHES)]:
        x = batch[0]
        model(x).sum().backward()
        optimizer.step()
""",
        0,
        0,
    ),
}


def test_each_kind_of_loop_that_draws_by_an_index(run):
    """Nothing but the loop's own index is io: no loader's fetch of examples, no part of a batch."""
    program, wanted = HEAD + HELPERS + LOOK_UP, {}
    for number, (text, fetches, ends) in enumerate(INDEXED_LOOPS.values()):
        name = f"Indexed{number}"
        program += INDEXED.format(name=name) + start_of(name, text)
        wanted[name] = (fetches, ends)
    process, found = run(program).only, dict.fromkeys(wanted, (0, 0))
    for span in process.named("io", "io.end"):
        if not span.what.startswith("DataLoader"):
            fetches, ends = found[span.what]
            is_end = span.region == "io.end"
            found[span.what] = (fetches + (not is_end), ends + is_end)
    assert found == wanted


LOOK_UP = """
def look_up(model, optimizer, dataset, at):
    x = dataset[at]
    model(x).sum().backward()
    optimizer.step()
"""


def test_what_is_drawn_by_an_index_in_compiled_code_stays_as_it_is(run):
    """New code for a method would have Dynamo compile what calls it once more."""
    program = HEAD + HELPERS + INDEXED.format(name="Indexed")
    program += """
torch.compile(lambda x: x + 1, backend="eager")(data[0])
"""
    program += start_of("Indexed", INDEXED_LOOPS["for"][0])
    assert not run(program).only.named("io")

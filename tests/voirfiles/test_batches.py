"""How many items a batch is told to hold: models by layouts, and who knows."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from injector.voirfiles._batches import items  # noqa: E402
from injector.voirfiles._loaders import draw, fetched  # noqa: E402


def ask(model, *args, **kwargs):
    return items(model(*args, **kwargs), model, args, kwargs)


class Sequences(nn.Module):
    """Sequences through ``inner``, turned before and after it, all of them or the last of each."""

    def __init__(self, inner, embeds, before, after, last):
        super().__init__()
        self.embed = nn.Embedding(50, 16) if embeds else nn.Identity()
        self.inner, self.head = inner, nn.Linear(16, 50)
        self.before, self.after, self.last = before, after, last

    def forward(self, x):
        x = self.embed(x)
        x = self.inner(x.transpose(0, 1) if self.before else x)
        x = x[0] if isinstance(x, tuple) else x
        x = x.transpose(0, 1) if self.after else x
        return self.head(x if self.last is None else x.select(self.last, -1))


def encoder(batch_first):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


INNER = {
    "lstm": lambda first: nn.LSTM(16, 16, batch_first=first),
    "gru": lambda first: nn.GRU(16, 16, batch_first=first),
    "rnn": lambda first: nn.RNN(16, 16, 2, batch_first=first),
    "encoder": encoder,
}
HAS_SHAPES = hasattr(torch.ones(1, requires_grad=True).sin().grad_fn, "_input_metadata")
UNKNOWN = None if HAS_SHAPES else 0
"""What a PyTorch whose graph has no shapes (2.4) may find as well: nothing, but never the wrong dimension."""
SIZES = [(16, 35), (8, 4), (1, 9), (9, 1)]


class Moments(nn.Module):
    """A result for each moment by itself, put together along ``dim``."""

    def __init__(self, dim):
        super().__init__()
        self.cell, self.head, self.dim = nn.GRUCell(3, 16), nn.Linear(16, 5), dim

    def forward(self, x):
        state, results = torch.zeros(x.shape[1 - self.dim % 3], 16), []
        for moment in x.unbind(self.dim % 3):
            state = self.cell(moment, state)
            results.append(self.head(state))
        return torch.stack(results, self.dim)


@pytest.mark.skipif(not HAS_SHAPES, reason="this PyTorch's graph has no shapes")
@pytest.mark.parametrize("dim", [0, 1, -2, -3])
def test_the_batch_of_results_that_are_stacked_moment_by_moment(dim):
    model, time_first = Moments(dim), dim in (0, -3)
    # A GRUCell is no sequence; a module beside it makes the model one.
    model.unused = nn.LSTM(3, 3)
    for items_, time in SIZES:
        shape = (time, items_, 3) if time_first else (items_, time, 3)
        assert ask(model, torch.ones(shape)) == items_


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("embeds", [True, False], ids=["tokens", "features"])
def test_the_batch_of_sequences_is_found_whatever_comes_first(inner, embeds):
    turns = itertools.product((False, True), (False, True), (False, True), ("all", "last"))
    for inner_first, before, after, taken in turns:
        batch_first = inner_first != before
        last = (1 if inner_first != after else 0) if taken == "last" else None
        for batch, time in SIZES:
            model = Sequences(INNER[inner](inner_first), embeds, before, after, last)
            shape = (batch, time) if batch_first else (time, batch)
            x = torch.randint(0, 50, shape) if embeds else torch.randn(*shape, 16)
            found = ask(model, x)
            assert found in (batch, UNKNOWN), (inner_first, before, after, taken, batch, time)


class Recurrent(nn.Module):
    """Tokens through an LSTM or an encoder, as torch.jit.script reads it."""

    def __init__(self, inner):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(50, 16), inner, nn.Linear(16, 50)

    def forward(self, x):
        return self.head(self.inner(self.embed(x))[0])


class Encoded(Recurrent):
    def forward(self, x):
        return self.head(self.inner(self.embed(x)))


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("compiler", ["trace", "script"])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_the_batch_of_sequences_is_found_in_compiled_models(inner, batch_first, compiler):
    x = torch.randint(0, 50, (16, 35) if batch_first else (35, 16))
    plain = (Encoded if inner == "encoder" else Recurrent)(INNER[inner](batch_first))
    for layer in plain.modules():
        for name in ("dropout", "p"):  # or torch.jit.trace finds two different results
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, 0.0)
    model = torch.jit.script(plain) if compiler == "script" else torch.jit.trace(plain, x)
    assert ask(model, x) in (16, UNKNOWN)
    with torch.no_grad():
        assert ask(model, x) in (16, UNKNOWN)  # what training has shown


def test_torchs_own_sequence_modules_say_where_their_batch_is():
    for first in (False, True):
        x = torch.randn(16, 50, 16) if first else torch.randn(50, 16, 16)
        for inner in (
            *INNER.values(),
            lambda first: nn.Transformer(16, 4, 1, 1, 32, batch_first=first),
        ):
            model = inner(first)
            assert ask(model, *((x, x) if isinstance(model, nn.Transformer) else (x,))) == 16
            assert ask(INNER["lstm"](first), x[0]) == 0  # one sequence by itself
    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 16), torch.randn(3, 16)])
    assert ask(nn.LSTM(16, 16), packed) == 2


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Embedding(9, 4), nn.Embedding(9, 4)

    def forward(self, one, two):
        return (self.one(one) * self.two(two)).sum(1)


class Words(nn.Module):
    """The words around one, which is guessed from all of them together."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(16, 9)

    def forward(self, around):
        return self.head(self.embed(around).view(1, -1))


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(9, 4)

    def forward(self, words, starts):
        return self.embed(words, starts)


def test_one_dimension_is_a_batch_only_where_as_much_comes_of_it():
    ids = torch.randint(0, 9, (64,))
    assert ask(Pairs(), ids, ids) == 64
    assert ask(Words(), torch.randint(0, 9, (4,))) == 0
    assert ask(Bags(), ids, torch.tensor([0, 9, 30])) == 0
    policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    assert ask(policy, torch.randn(4)) == 0
    assert ask(policy, torch.randn(7, 4)) == 7
    assert ask(nn.Conv2d(3, 8, 3), torch.randn(3, 8, 8)) == 0
    assert ask(nn.Conv2d(3, 8, 3), torch.randn(5, 3, 8, 8)) == 5


class Nodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x, edges=None, graph=None):
        x = self.layer(getattr(x, "x", x))
        if graph is None:
            return x
        return torch.zeros(int(graph.max()) + 1, 3).index_add(0, graph, x)


class Graphs:
    def __init__(self, **attributes):
        self.x = torch.randn(315, 8)
        vars(self).update(attributes)


class Counted(Graphs):
    @property
    def num_graphs(self):
        return 32


class Failing(Graphs):
    @property
    def num_graphs(self):
        raise ValueError("not batched")


class LossOfWeights(nn.Module):
    """A loss over a vocabulary that is called with the weights of the last layer first."""

    def forward(self, weight, hidden, target):
        return nn.functional.cross_entropy(hidden @ weight.T, target)


def test_weights_that_a_loss_is_called_with_have_no_items():
    weight = nn.Parameter(torch.rand(7, 4))
    batch = torch.rand(24, 4), torch.zeros(24, dtype=torch.int64)
    assert ask(LossOfWeights(), weight, *batch) == 24
    assert ask(nn.Linear(4, 2), weight) == 7  # a picture that is optimized is the batch


def test_rows_of_arrays_are_items_where_as_many_results_come_of_them():
    """Keras on PyTorch passes on what ``train_on_batch`` was called with."""
    numpy = pytest.importorskip("numpy")
    inner = nn.Linear(4, 2)

    class Converts(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x, summed=False):
            result = self.inner(torch.as_tensor(x))
            return result.sum(0) if summed else result

    model, rows = Converts(), numpy.ones((10, 4), "f")
    assert [ask(model, rows), ask(model, x=rows), ask(model, rows[0])] == [10, 10, 0]
    assert ask(model, rows, summed=True) == 0


def test_the_nodes_of_graphs_are_no_items():
    edges, graph = torch.randint(0, 315, (2, 900)), torch.arange(315) // 10
    x = torch.randn(315, 8)
    assert [
        ask(Nodes(), x, edges),
        ask(Nodes(), x, edges, graph),
        ask(Nodes(), x, None, graph),
        ask(Nodes(), x, torch.eye(315)),
        ask(Nodes(), x, torch.eye(315).to_sparse()),
    ] == [0] * 5
    assert ask(Nodes(), x, torch.eye(315)[:, :4]) == 315  # any second input
    for batch in (
        Counted(),
        Graphs(num_graphs=32),
        Graphs(batch_size=32),
        Graphs(batch_size=(32, 5)),
    ):
        assert ask(Nodes(), batch) == 32
    assert ask(Nodes(), Failing()) == 315


class ListOfGraphs(nn.Module):
    """It joins the graphs itself; its results are one for each graph, or for each node, or a loss."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, graphs, of="graph"):
        joined = torch.cat([g["x"] if isinstance(g, dict) else g.x for g in graphs])
        nodes = self.layer(joined)
        rows = [len(g["x"] if isinstance(g, dict) else g.x) for g in graphs]
        each = torch.stack([part.mean(0) for part in nodes.split(rows)])
        return {"graph": each, "node": nodes, "loss": nodes.sum(), "row": nodes[: rows[0]]}[of]


@pytest.mark.parametrize("made", [Graphs, dict])
def test_a_list_of_graphs_has_as_many_items_as_graphs(made):
    graphs = [made(x=torch.randn(number, 8)) for number in (4, 5, 7)]
    model = ListOfGraphs()
    assert ask(model, graphs) == 3
    assert ask(model, graphs, of="node") == ask(model, graphs, of="loss") == 0
    assert ask(model, graphs, of="row") == 4  # several inputs of one batch


def drawn(loader, model=None):
    """What each fetch says, asked as the hooks on the loader's iterator do."""
    iterator = iter(loader)
    found = []
    kind = type(iterator)
    index = kind._next_index

    def next_index(self):
        result = index(self)
        draw(result, self)
        return result

    kind._next_index = next_index
    try:
        iterator = iter(loader)
        for batch in iterator:
            found.append(fetched(batch, iterator))
    finally:
        kind._next_index = index
    return found


class Rows(IterableDataset):
    is_labelled = False

    def __iter__(self):
        rows = self.rows()
        return ((row, 1) for row in rows) if self.is_labelled else rows

    def rows(self):
        info = torch.utils.data.get_worker_info()
        n = 11 if info is None else 11 - 4 * info.id
        return iter(torch.randn(n, 3))


def first_time(rows):
    return torch.stack([row.expand(50, 3) for row in rows], 1)


def graph(rows):
    return torch.cat([row.expand(9, 3) for row in rows])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_items_of_a_batch_are_what_its_loader_drew(workers):
    rows = torch.randn(11, 3)
    groups = [[0], [1, 2, 3], [4, 5], [6, 7, 8, 9, 10]]
    options = {"num_workers": workers}
    for collate in (None, first_time, graph, list):
        found = drawn(DataLoader(rows, 4, collate_fn=collate, **options))
        assert found == [4, 4, 3], collate
        assert drawn(DataLoader(rows, batch_sampler=groups, collate_fn=collate, **options)) == [
            1,
            3,
            2,
            5,
        ]
    assert drawn(DataLoader(rows, batch_size=None, sampler=groups, **options)) == [1, 3, 2, 5]
    assert drawn(DataLoader(rows, batch_size=None, **options)) == [0] * 11
    whole = [4, 4, 3] if not workers else [4, 4, 4, 3, 3]
    for collate in (None, list):
        assert sorted(drawn(DataLoader(Rows(), 4, collate_fn=collate, **options))) == sorted(whole)
    labelled = Rows()
    labelled.is_labelled = True  # each batch is a list of two tensors
    assert sorted(drawn(DataLoader(labelled, 4, **options))) == sorted(whole)
    assert drawn(DataLoader(Rows(), batch_size=None, **options)) == [0] * (
        11 if not workers else 18
    )

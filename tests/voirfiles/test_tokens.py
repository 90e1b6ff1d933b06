"""Tokens are those of sequences: features in columns are tables of integers as well."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from injector.probe import compiled  # noqa: E402
from injector.voirfiles._batches import items  # noqa: E402
from injector.voirfiles._tokens import tokens  # noqa: E402

ROWS, TIME, WORDS = 8, 5, 50
cross_entropy = nn.functional.cross_entropy


class Words(nn.Module):
    """A model of language: scores of words for each word."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, WORDS)

    def forward(self, x):
        return self.head(self.embed(x))


class WordsAndLoss(Words):
    def forward(self, x, y):
        scores = super().forward(x)
        return {"scores": scores, "loss": cross_entropy(scores.flatten(0, 1), y.flatten())}


class Transposed(Words):
    def forward(self, x):
        return super().forward(x).transpose(1, 2)


class LossAlone(Words):
    def forward(self, x, y):
        return cross_entropy(super().forward(x).flatten(0, 1), y.flatten())


class Autoregressive(Words):
    def forward(self, x):
        return cross_entropy(super().forward(x[:, :-1]).transpose(1, 2), x[:, 1:])


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 2)
        self.inner = kind(16, 16, **options)
        self.is_first = options.get("batch_first", False)

    def forward(self, x):
        x = self.embed(x)
        out = self.inner(x if self.is_first else x.transpose(0, 1))[0]
        return self.head(out[:, -1] if self.is_first else out[-1])


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 2)
        self.mix = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.mix(self.embed(input_ids))[:, 0])


class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(WORDS, 4) for _ in range(TIME))
        self.head = nn.Linear(4 * TIME, 2)

    def forward(self, x):
        return self.head(torch.cat([one(x[:, n]) for n, one in enumerate(self.embed)], 1))


class AttentionOverColumns(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS * TIME, 16), nn.Linear(16, 2)
        self.mix = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x):
        x = self.embed(x + WORDS * torch.arange(TIME))
        return self.head(self.mix(x).mean(1))


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Columns(), Columns()

    def forward(self, user, thing):
        return (self.one(user) * self.other(thing)).sum(1)


class ColumnsBesideSeries(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns, self.head = Columns(), nn.Linear(16, 1)
        self.inner = nn.LSTM(3, 16, batch_first=True)

    def forward(self, x, series):
        still = self.columns(x)[:, None].expand(-1, series.shape[1], -1)
        return self.head(self.inner(torch.cat([series, still], 2))[0])


class Classes(Columns):
    """A loss of each row, in the model."""

    def forward(self, x, y):
        return cross_entropy(super().forward(x), y[:, 0] % 2)


ids = torch.randint(0, WORDS, (ROWS, TIME))
SEQUENCES = {
    "words": (Words(), (ids,), {}),
    "words and loss": (WordsAndLoss(), (ids, ids), {}),
    "transposed": (Transposed(), (ids,), {}),
    "loss alone": (LossAlone(), (ids, ids), {}),
    "autoregressive": (Autoregressive(), (ids,), {}),
    "LSTM, batch first": (Recurrent(nn.LSTM, batch_first=True), (ids,), {}),
    "GRU, time first": (Recurrent(nn.GRU), (ids,), {}),
    "named": (Named(), (ids,), {}),
    "named by the call": (Named(), (), {"input_ids": ids, "attention_mask": ids}),
    "in a wrapper": (nn.DataParallel(Named()), (ids,), {}),
}
COLUMNS = {
    "columns": (Columns(), (ids,), {}),
    "attention over columns": (AttentionOverColumns(), (ids,), {}),
    "two towers": (TwoTowers(), (ids, ids), {}),
    "columns beside series": (ColumnsBesideSeries(), (ids, torch.randn(ROWS, 12, 1)), {}),
    "classes": (Classes(), (ids, ids), {}),
    "one column": (nn.Sequential(nn.Embedding(WORDS, 2)), (ids[:, :1],), {}),
}


def claimed(case, calls=5):
    """The tokens of some calls, by the function, its short way, and both with the items."""
    compiled.learn_tensors(torch)
    model, args, kwargs = case
    both = compiled.Pair(items, 100, tokens, 1 << 20)
    found = []
    for _ in range(calls):
        values = (model(*args, **kwargs), model, args, kwargs)
        found.append(tokens(*values))
        assert both(*values) == ROWS | found[-1] << 7
        assert tokens.__wrapped__(*values) == found[-1]
    return found


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_have_tokens_from_the_first_call_on(name):
    assert claimed(SEQUENCES[name]) == [ROWS * TIME] * 5


@pytest.mark.parametrize("name", COLUMNS)
def test_features_in_columns_have_none(name):
    assert claimed(COLUMNS[name]) == [0] * 5


def test_calls_without_gradients_leave_it_open():
    case = Recurrent(nn.LSTM), (ids,), {}
    with torch.no_grad():
        assert claimed(case, calls=40) == [0] * 40
    assert claimed(case) == [ROWS * TIME] * 5


def test_a_model_at_the_place_of_one_that_is_gone():
    for _ in range(20):
        assert claimed((Words(), (ids,), {}), 2) == [ROWS * TIME] * 2
        assert claimed((Columns(), (ids,), {}), 2) == [0, 0]

"""A loader that keeps one endless iterator for all its passes, as the text of a program."""

ENDLESS = """
from torch.utils.data import DataLoader

class Repeated:
    def __init__(self, sampler):
        self.sampler = sampler
    def __iter__(self):
        while True:
            yield from self.sampler

class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
        self.iterator = {kept}
    def __len__(self):
        return len(self.batch_sampler.sampler)
    def __iter__(self):
        if self.iterator is None:
            self.iterator = super().__iter__()
        for _ in range(len(self)):
            yield next(self.iterator)
"""
"""``kept`` is its first iterator: ``super().__iter__()``, or ``None`` for one that the first pass makes."""

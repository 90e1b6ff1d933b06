"""``every_step.py`` as TraceML wants a loop to be written."""

import every_step
import traceml_ai as traceml
from every_step import clock, until
from torch.utils.data import DataLoader

traceml.init(mode="auto")


def train(model, optimizer, dataset, length):
    batches = DataLoader(dataset, batch_size=None)
    end = clock()
    for batch in batches:
        end = max(end, clock() - length) + length
        with traceml.trace_step(model):
            optimizer.zero_grad()
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            until(end)


if __name__ == "__main__":
    every_step.main(train)

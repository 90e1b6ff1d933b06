"""``train_steps.py`` as TraceML wants a loop to be written: each step in its ``trace_step``."""

import traceml_ai as traceml
import train_steps
from torch.utils.data import DataLoader

traceml.init(mode="auto")


def train(model, optimizer, dataset):
    batches = DataLoader(dataset, batch_size=None)
    for batch in batches:
        with traceml.trace_step(model):
            optimizer.zero_grad()
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    train_steps.train = train
    train_steps.main()

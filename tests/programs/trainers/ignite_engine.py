"""Ignite's engines, one that trains and one that evaluates; reported.0.json says what they counted."""

import json

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss, RunningAverage
from torch.utils.data import DataLoader, TensorDataset


def loader(rows):
    return DataLoader(TensorDataset(torch.randn(rows, 8), torch.randn(rows, 1)), batch_size=4)


def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = torch.nn.MSELoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "running")
    evaluator = create_supervised_evaluator(model, metrics={"mse": Loss(criterion)})

    def own_evaluation(engine, batch):
        model.eval()
        with torch.no_grad():
            return model(batch[0])

    own_evaluator = Engine(own_evaluation)
    train, val = loader(40), loader(8)
    passes, losses, mse = 0, [], []

    @trainer.on(Events.ITERATION_COMPLETED)
    def keep(engine):
        losses.append(engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        nonlocal passes
        passes += 2
        evaluator.run(val)
        own_evaluator.run(val)
        mse.append(evaluator.state.metrics["mse"])

    trainer.run(train, max_epochs=2)
    evaluator.run(val)
    reported = {
        "global_step": trainer.state.iteration,
        "epochs": trainer.state.epoch,
        "passes": passes + 1,
        "losses": losses,
        "mse": mse,
    }
    with open("reported.0.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()

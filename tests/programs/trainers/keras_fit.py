"""Keras with the torch backend; reported.0.json says what Keras counted."""

import argparse
import json
import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=None)
parser.add_argument("--own-loop", action="store_true")
parser.add_argument("--own-step", action="store_true")
parser.add_argument("--endless", type=int, default=None, help="batches of an epoch, without an end")
options = parser.parse_args()


def arrays(rows):
    generator = numpy.random.default_rng(rows)
    x = generator.normal(size=(rows, 8)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def endless():
    while True:
        x, y = arrays(4)
        yield x, y


class Counting(keras.callbacks.Callback):
    batches, passes, epochs = 0, 0, 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_test_begin(self, logs=None):
        self.passes += 1

    def on_epoch_end(self, epoch, logs=None):
        self.epochs += 1


class OwnStep(keras.Sequential):
    """Keras' own step, which gives its metrics as the guides to a step of one's own do."""

    def train_step(self, data):
        super().train_step(data)
        return {metric.name: metric.result() for metric in self.metrics}


def fit(model, optimizer):
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    counting = Counting()
    x, y = arrays(40)
    data = {"x": x, "y": y, "batch_size": 4}
    if options.endless:
        data = {"x": endless(), "steps_per_epoch": options.endless}
    history = model.fit(
        **data, epochs=2, validation_data=arrays(8), callbacks=[counting], verbose=0
    )
    model.predict(arrays(8)[0], verbose=0)
    return {
        "batches": counting.batches,
        "epochs": counting.epochs,
        "passes": counting.passes + 1,
        "history": history.history,
    }


def own_loop(model, optimizer):
    import torch

    losses = []
    for _ in range(2):
        x, y = map(torch.as_tensor, arrays(40))
        for begin in range(0, 40, 4):
            out = model(x[begin : begin + 4], training=True)
            loss = keras.ops.mean(keras.losses.mean_squared_error(y[begin : begin + 4], out))
            model.zero_grad()
            loss.backward()
            weights = model.trainable_weights
            with torch.no_grad():
                optimizer.apply([weight.value.grad for weight in weights], weights)
            losses.append(loss.item())
    return {"batches": len(losses), "losses": losses}


def main():
    keras.utils.set_random_seed(0)
    kind = OwnStep if options.own_step else keras.Sequential
    model = kind([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(gradient_accumulation_steps=options.accumulate)
    reported = own_loop(model, optimizer) if options.own_loop else fit(model, optimizer)
    reported["global_step"] = reported["batches"] // (options.accumulate or 1)
    with open("reported.0.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()

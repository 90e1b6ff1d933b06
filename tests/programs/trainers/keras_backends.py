"""Keras on its backends: a fit that is compiled, run eagerly, of named inputs; reported.0.json has its history."""

import json
import os
import sys

backend, how = sys.argv[1:]
os.environ["KERAS_BACKEND"] = backend
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy


def arrays(rows):
    generator = numpy.random.default_rng(rows)
    x = generator.normal(size=(rows, 8)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


class Own(keras.Sequential):
    pass


class Sum(keras.layers.Layer):
    def call(self, inputs):
        return inputs["a"] + inputs["b"]

    def compute_output_shape(self, shapes):
        return shapes["a"]


def of_named_inputs():
    inputs = {name: keras.Input((8,), name=name) for name in "ab"}
    return keras.Model(inputs, keras.layers.Dense(1)(Sum()(inputs)))


def main():
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)]
    model = of_named_inputs() if how == "named" else Own(layers)
    steps = 3 if how == "several" else 1
    eager = how == "eager"
    if how == "predict":
        model.build((None, 8))
    else:
        model.compile("adam", "mse", metrics=["mae"], run_eagerly=eager, steps_per_execution=steps)
    x, y = arrays(42)
    if how == "predict":
        reported = {"rows": [len(model.predict(x, batch_size=4, verbose=0)) for _ in range(2)]}
    elif how == "named":
        history = model.fit({"a": x, "b": x}, y, batch_size=4, verbose=0)
        reported = {"history": history.history}
    elif how == "by_hand":
        losses = []
        for _ in range(2):
            losses += [model.train_on_batch(x[:4], y[:4])[0] for _ in range(5)]
            model.test_on_batch(x[:3], y[:3])
            model.predict_on_batch(x[:2])
        reported = {"losses": [float(loss) for loss in losses]}
    else:
        history = model.fit(x, y, batch_size=4, epochs=2, validation_data=arrays(8), verbose=0)
        reported = {"history": history.history}
    with open("reported.0.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()

"""Trains a model of Keras Applications with random weights by `fit`, or has it `predict`, on any backend.

KERAS_BACKEND names the backend. The pictures have stripes, whose direction is what is learnt.
"""

import argparse

import keras
import numpy as np


def pictures(number: int, size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """``number`` pictures, float32 of ``size`` × ``size`` × 3, and their classes."""
    random = np.random.default_rng(0)
    wanted = random.integers(0, classes, number)
    y, x = np.indices((size, size))
    angle = (wanted * np.pi / classes)[:, None, None]
    stripes = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 0.6).astype(np.float32)
    found = random.standard_normal((number, size, size, 3), np.float32)
    found *= 0.5
    found += stripes[..., None]
    return found, wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", default="ResNet50", help="one of keras.applications; mobilenet_v2 is MobileNetV2"
    )
    parser.add_argument("--phase", choices=("training", "inference"), default="training")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=64, help="pixels of a side")
    parser.add_argument("--number", type=int, default=1280, help="pictures of an epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--classes", type=int, default=10)
    options = parser.parse_args()

    if keras.backend.backend() == "jax":
        import jax

        # Else a step ends when it is handed to JAX, and many of them wait to be computed.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    # What is not copied to the device yet is handed over all the same: a callback at the end of a batch has
    # Keras wait for it.
    ended = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    ended.on_predict_batch_end = lambda batch, logs: keras.ops.convert_to_numpy(logs["outputs"])
    keras.utils.set_random_seed(0)
    known = {name.lower(): name for name in dir(keras.applications) if name[0].isupper()}
    name = options.model.replace("_", "").lower()
    if name not in known:
        parser.error(f"--model {options.model}: keras.applications has {', '.join(known.values())}")
    make = getattr(keras.applications, known[name])
    shape = (options.size, options.size, 3)
    model = make(weights=None, input_shape=shape, classes=options.classes)
    x, y = pictures(options.number, options.size, options.classes)
    if options.phase == "inference":
        for _ in range(options.epochs):
            model.predict(x, batch_size=options.batch_size, verbose=2, callbacks=[ended])
        return
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        x, y, batch_size=options.batch_size, epochs=options.epochs, verbose=2, callbacks=[ended]
    )


if __name__ == "__main__":
    main()

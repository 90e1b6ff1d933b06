"""Writes a model of Keras Applications with random weights as ONNX: by its backend PyTorch, alone."""

import argparse
from pathlib import Path

import keras
import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", required=True, help="one of keras.applications; mobilenet_v2 is MobileNetV2"
    )
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    known = {name.lower(): name for name in dir(keras.applications) if name[0].isupper()}
    name = options.model.replace("_", "").lower()
    if name not in known:
        parser.error(f"--model {options.model}: keras.applications has {', '.join(known.values())}")
    shape = (options.size, options.size, 3)
    make = getattr(keras.applications, known[name])
    model = make(weights=None, input_shape=shape, classes=options.classes)
    model(np.zeros((1, *shape), "float32"))  # Keras exports what was called
    options.out.parent.mkdir(parents=True, exist_ok=True)
    model.export(str(options.out), format="onnx", verbose=False)


if __name__ == "__main__":
    main()

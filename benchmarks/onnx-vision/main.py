"""Has a model of pictures, in a file of ONNX, predict batch after batch on ONNX Runtime."""

import argparse

import numpy as np
import onnxruntime

DIFFERENT = 4
"""Batches in memory, which are used by turns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a file of ONNX with one input of pictures")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=100)
    options = parser.parse_args()

    session = onnxruntime.InferenceSession(options.model)
    [wanted] = session.get_inputs()
    random = np.random.default_rng(0)
    shape = (options.batch_size, *wanted.shape[1:])
    batches = [random.standard_normal(shape, np.float32) for _ in range(DIFFERENT)]
    counted = np.zeros(session.get_outputs()[0].shape[1], int)
    for number in range(options.batches):
        [found] = session.run(None, {wanted.name: batches[number % DIFFERENT]})
        np.add.at(counted, found.argmax(1), 1)
    print(f"{counted.sum()} pictures of {np.count_nonzero(counted)} classes")


if __name__ == "__main__":
    main()

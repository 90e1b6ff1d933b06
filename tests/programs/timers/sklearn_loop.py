"""A training loop of scikit-learn, timed: no framework of deep learning is there."""

import numpy as np
from sklearn.linear_model import SGDClassifier

import injector

timer = injector.Timer()
drawn = np.random.default_rng(0)
model = SGDClassifier(random_state=0)
for _ in range(2):
    timer.start("Epoch")
    for _ in range(10):
        timer.start("Batch")
        timer.start("IO")
        inputs = drawn.normal(size=(64, 16))
        labels = (inputs[:, 0] > 0).astype(int)
        timer.end("IO")
        timer.start("Forward")
        model.partial_fit(inputs, labels, classes=[0, 1])
        timer.start("Other")  # which outlasts what it begins in
        timer.end("Forward")
        score = model.score(inputs, labels)
        timer.end("Other")
        timer.end("Batch")
    timer.end("Epoch")
for key in timer.keys():
    print(key, timer.statistics(key).n)

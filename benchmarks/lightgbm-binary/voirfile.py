"""Lets the first of the example's trainings last long enough to be measured; the others build on it."""

ROUNDS = 300


def instrument_rounds(ov):
    left = [ROUNDS]
    ov.override("/lightgbm.engine/train > num_boost_round", lambda n: left.pop() if left else n)

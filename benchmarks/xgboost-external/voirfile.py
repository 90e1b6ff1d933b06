"""Makes the demonstration's data larger, and its trainings long enough to be measured."""

ROWS, ROUNDS = 4096, 40


def instrument_sizes(ov):
    ov.override("//make_batches > n_samples_per_batch", lambda rows: ROWS)
    ov.override("/xgboost.training/train > num_boost_round", lambda rounds: ROUNDS)

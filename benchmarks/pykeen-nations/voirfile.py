"""Triples a second and loss of pykeen's training loop, a class that its many models share."""

import gc  # noqa: F401  (named by a selector)


def instrument_training(ov):
    yield ov.phases.load_script

    # It is also called once on two batches, to see whether they fit into memory: no training.
    epoch = "/pykeen.training.training_loop/TrainingLoop/_train_epoch"
    ov.loader(f"{epoch}(only_size_probing=False) > batches", task="train")
    ov.value(f"{epoch}(only_size_probing=False) > batch_loss", "loss")

    # Rates are about turns of the loop. Most of an epoch is none: each ends by collecting garbage.
    ov.region(epoch, "epoch")
    ov.region("gc.collect", "garbage")

"""Molecules a second and loss of chemprop, whose loop is inside Lightning.

Lightning calls ``advance`` once a batch: fetching, forward, backward and the optimizer are in it.
"""


def instrument_training(ov):
    yield ov.phases.load_script

    sizes = []
    model = "/chemprop.models.model/MPNN"
    ov.probe(f"{model}/training_step > batch_size").subscribe(
        lambda at: sizes.append(at["batch_size"])
    )
    ov.value(f"{model}/training_step > l", "loss")
    ov.step(
        "/lightning.pytorch.loops.training_epoch_loop/_TrainingEpochLoop/advance",
        task="train",
        items=lambda: sizes[-1],
    )

"""Volumes a second of MONAI's trainer; shipped voirfiles see the loop, which is Ignite's."""


def instrument_loss(ov):
    ov.value(
        "/monai.engines.trainer/SupervisedTrainer/_iteration",
        "loss",
        get=lambda engine, result: result["loss"],
    )

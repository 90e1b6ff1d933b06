"""The value of the loop's ``loss``, and nothing else."""


def instrument_loss(ov):
    yield ov.phases.load_script

    ov.value("//train > loss")

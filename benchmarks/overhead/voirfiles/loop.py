"""The fetches and steps of the loop that ``batches`` drives, and nothing else."""


def instrument_loop(ov):
    yield ov.phases.load_script

    ov.loader("//train > batches")

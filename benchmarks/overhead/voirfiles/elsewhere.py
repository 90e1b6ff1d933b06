"""One probe, in a module that the program never imports: what is measured is everything else."""


def instrument_elsewhere(ov):
    yield ov.phases.load_script

    ov.value("/never_imported_by_anyone/function > x", "x")

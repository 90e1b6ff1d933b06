"""A loop of one's own is a study as soon as it is known which function runs a trial."""


def instrument_grid(ov):
    ov.trial(
        "//trial",
        lambda rate, width, result: {"rate": rate, "width": width, "value": result},
        study="grid",
        goal="maximize",
    )

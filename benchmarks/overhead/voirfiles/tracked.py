"""What ``programs/tracked.py`` makes: steps, each with a loss."""


def instrument_all(ov):
    ov.step("//turn", items=4)
    ov.value("//turn > loss")

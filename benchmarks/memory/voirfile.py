"""A measurement is a step; its items are 10⁶ bytes, each read once and written once."""


def instrument_copies(ov):
    moved = "//copy"
    ov.step(moved, task="train", items=lambda source, number: 2 * source.nbytes * number // 10**6)

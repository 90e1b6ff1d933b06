"""A measurement is a step; its items are the 10⁶ bytes of the buffers that this rank gave."""


def instrument_sums(ov):
    ov.step("//reduce", task="train", items=lambda buffer, number: buffer.nbytes * number // 10**6)

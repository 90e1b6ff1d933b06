"""A measurement is a step; its items are 10⁹ operations: two for each element of each product."""


def instrument_products(ov):
    ov.step("//multiply", task="train", items=lambda a, number: 2 * len(a) ** 3 * number // 10**9)

"""Rows a second of DLRM, whose data set has whole batches as its items."""


def instrument_rows(ov):
    ov.loader("//run > train_ld", items=lambda batch: len(batch[0]))

"""Crystals a second of MACE: its model is called on all atoms of a batch at once."""


def instrument_training(ov):
    loop = "/mace.tools.train/train_one_epoch"
    ov.loader(f"{loop} > data_loader", task="train", items=lambda batch: batch.num_graphs)
    ov.value("/mace.tools.train/take_step > loss", "loss")

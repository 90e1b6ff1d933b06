"""Regions of ``region_calls.py``, with what the shipped voirfile of PyTorch asks of each."""


def instrument_regions(ov):
    yield ov.phases.load_script
    ask(ov, device=False)


def ask(ov, device):
    ov.loader("//walk > batches")
    ov.region("//fetch", "io", of=lambda loader: loader, what="loader")
    ov.region(
        "//forward",
        "forward",
        of=lambda model, batch: model,
        what=lambda model, batch: type(model).__name__,
        phase=lambda model, batch: "train",
        items=lambda model, batch: batch.shape[0],
        outermost=True,
        device=device,
    )
    ov.region("//backward", "backward", outermost=True, device=device)
    ov.value("//backward", "loss", task="train", get=lambda loss: loss)
    ov.region(
        "//update",
        "optimizer",
        of=lambda optimizer: optimizer,
        what=lambda optimizer: type(optimizer).__name__,
        outermost=True,
        device=device,
    )

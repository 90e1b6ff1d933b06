"""What the shipped voirfiles ask of a step, of functions without a library; and a value at every turn."""


def instrument_events(ov):
    ov.value("//observe > x", "x")


def instrument_steps(ov):
    ov.loader("//train > loader")
    ov.region(
        "//forward",
        "forward",
        when=lambda self: self.layers,
        of="self",
        phase=lambda self: "train" if self.training else "eval",
        depends=["self.training", "bool(self.layers)"],
        items=lambda result: len(result[0]),
        outermost=True,
    )
    ov.region("//backward", "backward", outermost=True)
    ov.value("//backward", "loss", get=lambda loss: loss)
    ov.region("//update", "optimizer", of="args[0]", what="update", outermost=True)

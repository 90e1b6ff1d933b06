"""Loaders, forward, backward, optimizers."""

LIBRARY = "torch"
TESTED = ("2.4", "2.13")


def instrument_training(ov):
    ov.region("/torch.nn.modules.module/Module/_wrapped_call_impl", "forward")
    ov.region("/torch.nn.modules.module/Module/nope", "forward")

"""Characters a second and loss of stanza's character language model.

Its loop is a ``while`` in a plain function, without a data loader: a step is what lies between one
loss and the next. Written in voir's form, with options of its own.
"""

from dataclasses import dataclass

from voir import configurable
from voir.instruments import early_stop, log, rate


@dataclass
class Pace:
    # Steps that make one rate
    interval: int = 1
    # Rates that are dropped as warm-up
    skip: int = 10
    # Rates after which the program is stopped; 0 lets it end by itself
    stop: int = 0


@configurable
def instrument_training(ov, pace: Pace):
    yield ov.phases.init

    ov.require(log("rate", "units", "loss", context="task"))
    ov.require(rate(interval=pace.interval, skip=pace.skip))
    if pace.stop:
        ov.require(early_stop(n=pace.stop, key="rate", task="train"))

    yield ov.phases.load_script

    steps = ov.probe("//train(data) > loss")
    steps.kmap(
        lambda data, loss: {"task": "train", "batch_size": data.numel(), "loss": loss.item()}
    ).give()

    # Where the time of a step goes, and what is no step.
    ov.region("/stanza.models.common.char_model/CharacterLanguageModel/forward", "forward")
    ov.region("/torch._tensor/Tensor/backward", "backward")
    ov.region("/torch.optim.sgd/SGD/step", "optimizer")
    ov.region("//evaluate_and_save", "evaluation")

"""Sequences a second and loss of minGRU's training script, made small enough for any machine.

Everything in that script stands at module level: its constants are overridden there, and its loop
is named there. The script asks for CUDA in so many words; without a GPU it stays where it is.
"""

from dataclasses import dataclass

from voir import configurable
from voir.instruments import log, rate


@dataclass
class Size:
    # Optimizer steps
    steps: int = 40
    # Characters of a sequence
    seq_len: int = 128
    # Width of the model
    dim: int = 128
    # Layers of the model
    depth: int = 2


@configurable
def instrument_size(ov, size: Size):
    yield ov.phases.load_script

    ov.override("// > NUM_BATCHES", lambda _: size.steps)
    ov.override("// > SEQ_LEN", lambda _: size.seq_len)
    ov.override("// > GENERATE_LENGTH", lambda _: 0)
    ov.override("/minGRU_pytorch.minLM/minLM/__init__ > dim", lambda _: size.dim)
    ov.override("/minGRU_pytorch.minLM/minLM/__init__ > depth", lambda _: size.depth)


def instrument_without_gpu(ov):
    yield ov.phases.load_script

    import torch

    if not torch.cuda.is_available():
        torch.nn.Module.cuda = torch.Tensor.cuda = lambda self, *_, **__: self


def instrument_rate(ov):
    yield ov.phases.init

    # The first turn also validates and generates.
    ov.require(log("rate", "units", "loss", context="task"), rate(skip=2))

    yield ov.phases.load_script

    # One turn of the outer loop is one step: several batches are accumulated in it.
    turns = ov.probe("//(BATCH_SIZE, GRAD_ACCUM_EVERY) > #endloop_i")
    turns.map(
        lambda at: {"task": "train", "batch_size": at["BATCH_SIZE"] * at["GRAD_ACCUM_EVERY"]}
    ).give()

    # The first turn also validates, with a loss of the same name.
    losses = ov.probe("//(model) > loss")
    losses.kmap(
        lambda model, loss: {
            "task": "train" if model.training else "validation",
            "loss": loss.item(),
        }
    ).give()

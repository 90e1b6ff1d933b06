"""Lets pytorch-cifar train on made-up data, without a terminal, and on a model that fits the machine.

The script compares the data's digests with those of CIFAR-10, and asks a terminal for its width.
"""

import importlib
import io
from dataclasses import dataclass

from voir import configurable

PLAIN = "SimpleDLA"
"""The model that the script trains."""


@dataclass
class Size:
    # A class of the repository's folder models/
    model: str = PLAIN


@configurable
def instrument_model(ov, size: Size):
    yield ov.phases.load_script

    def chosen(net):
        if size.model == PLAIN or type(net).__name__ != PLAIN:
            return net
        models = importlib.import_module("models")  # the repository's own
        return getattr(models, size.model)()

    ov.override("// > net", chosen)


def instrument_data(ov):
    ov.override("/torchvision.datasets.utils/check_integrity > #value", lambda _: True)


def instrument_terminal(ov):
    # What `stty size` prints: 24 rows of 80 columns. Without a terminal it prints nothing.
    ov.probe("/os/popen(cmd) > #value", overridable=True).koverride(
        lambda cmd, **rest: io.StringIO("24 80") if cmd == "stty size" else rest["#value"]
    )

"""Checkpoints and logging: what is written beside the training, by torch, safetensors and TensorBoard.

``checkpoint`` is the outermost call that saves, so that what a trainer calls inside of it is not seen.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "torch"
TESTED = ("2.4", "2.13")

WRITER = "torch.utils.tensorboard.writer"
WRITES = (
    "add_scalar add_scalars add_histogram add_image add_images add_figure add_text add_graph flush"
)


def instrument_checkpoints(ov: Any) -> None:
    """``checkpoint``: ``torch.save``, those of several ranks, and files of safetensors."""
    ov.region("/torch.serialization/save", "checkpoint", what="torch.save", outermost=True)
    for module, names in (
        ("torch.distributed.checkpoint.state_dict_saver", ("save", "async_save")),
        ("safetensors.torch", ("save_file", "save_model")),
    ):
        ov.after_import(module, lambda _, module=module, names=names: _saving(ov, module, names))


def _saving(ov: Any, module: str, names: tuple[str, ...]) -> None:
    for name in names:
        what = f"{module.partition('.')[0]}.{name}"
        ov.region(f"/{module}/{name}", "checkpoint", what=what, outermost=True)


def instrument_logs(ov: Any) -> None:
    """``logging``: what is handed to TensorBoard."""

    def loaded(module: Any) -> None:
        for name in WRITES.split():
            if hasattr(module.SummaryWriter, name):
                where = f"/{WRITER}/SummaryWriter/{name}"
                ov.region(where, "logging", what=name, outermost=True)

    ov.after_import(WRITER, loaded)

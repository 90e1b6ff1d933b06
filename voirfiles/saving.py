"""Checkpoints and logging: what functions of common libraries write beside the training.

``checkpoint`` and ``logging`` are the outermost such calls: what a trainer's own function for saving calls is
a part of it. Each library is recorded from when the program imports it.
"""

from __future__ import annotations

import io

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = ("torch", "safetensors", "tensorboardX", "wandb", "mlflow", "joblib", "orbax")
TESTED = ("2.4", "2.13")

_SCALARS = "add_scalar add_scalars add_histogram add_image add_images add_figure add_text add_graph"
_MLFLOW = (
    "log_metric log_metrics log_param log_params log_artifact log_artifacts log_figure log_image "
    "log_text log_dict log_table"
)
_ORBAX = "orbax.checkpoint._src.checkpointers"
WRITERS = (
    # region, module, class or nothing, functions
    ("checkpoint", "torch.serialization", "", "save"),
    ("checkpoint", "torch.distributed.checkpoint.state_dict_saver", "", "save async_save"),
    ("checkpoint", "safetensors.torch", "", "save_file save_model"),
    ("checkpoint", "safetensors.numpy", "", "save_file"),
    ("checkpoint", "joblib.numpy_pickle", "", "dump"),
    ("checkpoint", "orbax.checkpoint.checkpoint_manager", "CheckpointManager", "save"),
    ("checkpoint", f"{_ORBAX}.checkpointer", "Checkpointer", "save"),
    ("checkpoint", f"{_ORBAX}.async_checkpointer", "AsyncCheckpointer", "save"),
    ("logging", "torch.utils.tensorboard.writer", "SummaryWriter", f"{_SCALARS} flush"),
    ("logging", "tensorboardX.writer", "SummaryWriter", f"{_SCALARS} flush"),
    ("logging", "wandb.sdk.wandb_run", "Run", "log log_artifact save"),
    ("logging", "mlflow.tracking.fluent", "", _MLFLOW),
)
"""Functions that write checkpoints and logs. Those that a version of the library lacks are left out."""


def instrument_saving(ov: Any) -> None:
    """``checkpoint`` and ``logging``: the functions of :data:`WRITERS`."""
    for writer in WRITERS:
        ov.after_import(writer[1], lambda module, writer=writer: watch(ov, module, *writer))


def watch(ov: Any, module: Any, region: str, name: str, kind: str, functions: str) -> None:
    """Record calls of ``functions`` in the imported ``module`` ``name``, or in its class ``kind``."""
    holder, path = (getattr(module, kind), f"{name}/{kind}") if kind else (module, name)
    for function in functions.split():
        if hasattr(holder, function):
            ov.region(
                f"/{path}/{function}",
                region,
                what=f"{kind or name.partition('.')[0]}.{function}",
                when=_CONDITIONS.get((name, function)),
                outermost=True,
            )


def is_no_memory(f: Any) -> bool:
    """Whether ``torch.save`` writes elsewhere than into memory, where bytes are copied or sent."""
    return not isinstance(f, io.BytesIO)


def is_kept(filename: Any) -> bool:
    """Whether joblib writes a file for the program, not one to pass an array to its workers."""
    path = getattr(filename, "__fspath__", lambda: filename)()
    return isinstance(path, str) and "joblib_memmapping_folder" not in path


_CONDITIONS: dict[tuple[str, str], Any] = {
    ("torch.serialization", "save"): is_no_memory,
    ("joblib.numpy_pickle", "dump"): is_kept,
}
"""By module and function, on which condition a call of it writes something that stays."""

"""Checkpoints and logging: what functions of common libraries write beside the training.

``checkpoint`` and ``logging`` are the outermost such calls, so that what a trainer's own way to save calls
inside of it is not seen. Each library is watched from when the program imports it, and in no other program.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = ("torch", "safetensors", "tensorboardX", "wandb", "mlflow", "joblib")
TESTED = ("2.4", "2.13")

_SCALARS = "add_scalar add_scalars add_histogram add_image add_images add_figure add_text add_graph"
_MLFLOW = (
    "log_metric log_metrics log_param log_params log_artifact log_artifacts log_figure log_image "
    "log_text log_dict log_table"
)
KNOWN = (
    # region, module, class or nothing, functions
    ("checkpoint", "torch.serialization", "", "save"),
    ("checkpoint", "torch.distributed.checkpoint.state_dict_saver", "", "save async_save"),
    ("checkpoint", "safetensors.torch", "", "save_file save_model"),
    ("checkpoint", "safetensors.numpy", "", "save_file"),
    ("checkpoint", "joblib.numpy_pickle", "", "dump"),
    ("logging", "torch.utils.tensorboard.writer", "SummaryWriter", f"{_SCALARS} flush"),
    ("logging", "tensorboardX.writer", "SummaryWriter", f"{_SCALARS} flush"),
    ("logging", "wandb.sdk.wandb_run", "Run", "log log_artifact save"),
    ("logging", "mlflow.tracking.fluent", "", _MLFLOW),
)
"""What writes checkpoints and logs. A function that a version of the library lacks is left out."""


def instrument_saving(ov: Any) -> None:
    """The functions of :data:`KNOWN`."""
    for known in KNOWN:
        ov.after_import(known[1], lambda module, known=known: watch(ov, module, *known))


def watch(ov: Any, module: Any, region: str, name: str, kind: str, functions: str) -> None:
    """Record the calls of some functions of a module that was imported."""
    holder, path = (getattr(module, kind), f"{name}/{kind}") if kind else (module, name)
    for function in functions.split():
        if hasattr(holder, function):
            ov.region(
                f"/{path}/{function}",
                region,
                what=f"{kind or name.partition('.')[0]}.{function}",
                when=(lambda filename: is_kept(filename)) if function == "dump" else None,
                outermost=True,
            )


def is_kept(filename: Any) -> bool:
    """Whether joblib writes a file of the program's: it passes arrays to its workers by files as well."""
    path = getattr(filename, "__fspath__", lambda: filename)()
    return isinstance(path, str) and "joblib_memmapping_folder" not in path

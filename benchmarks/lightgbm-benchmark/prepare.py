"""Data, a model and a program for lightgbm-benchmark's scripts, most of it made by these scripts themselves.

train/ test/ inference/   generate.py: text between commas, the label first
parts/                    partition.py: the lines of train/ in --parts files, for several processes
model/model.txt           train.py, with --model_trees trees; without any, nothing
lightgbm_predict          predict.c, compiled against the library of this environment; with the model only
mpi/                      with --mpi: LightGBM, compiled with MPI, for PYTHONPATH
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NEEDED = (
    "LightGBM over MPI needs a C++ compiler, CMake and the files of an MPI library (Debian: g++ cmake "
    "openmpi-bin libopenmpi-dev)"
)
OBJECTIVES = {  # of each kind of data: objective, metric, other parameters
    "regression": ("regression", "rmse", "{{}}"),
    "classification": ("multiclass", "multi_logloss", '{{"num_class": {classes}}}'),
    "lambdarank": ("lambdarank", "ndcg", "{{}}"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True, help="lightgbm-benchmark's repository")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--type", choices=OBJECTIVES, default="regression")
    parser.add_argument("--train_samples", type=int, default=100_000)
    parser.add_argument("--test_samples", type=int, default=10_000)
    parser.add_argument("--inferencing_samples", type=int, default=10_000)
    parser.add_argument("--n_features", type=int, default=10)
    parser.add_argument("--n_label_classes", type=int, default=3)
    parser.add_argument("--docs_per_query", type=int, default=10)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--model_trees", type=int, default=0)
    parser.add_argument("--mpi", action="store_true")
    args = parser.parse_args()
    if args.mpi:
        compile_with_mpi(args.out / "mpi")
    scripts = Path(args.source, "src", "scripts")
    with tempfile.TemporaryDirectory() as scratch:
        generate(args, scripts, scratch)
        if args.parts > 1:
            partition(args, scripts, scratch)
        if args.model_trees:
            train(args, scripts, scratch)
            compile_predictor(args.out / "lightgbm_predict")


def run(script: Path, scratch: str, *words: object) -> None:
    """One of the scripts; what it logs goes into ``scratch``. Ends this program where it fails."""
    tracking = {"MLFLOW_TRACKING_URI": f"sqlite:///{scratch}/mlflow.db"}
    command = [sys.executable, str(script), *map(str, words), "--disable_perf_metrics", "True"]
    done = subprocess.run(command, cwd=scratch, env={**os.environ, **tracking})
    if done.returncode:
        sys.exit(f"{script.name} ended with exit code {done.returncode}")


def generate(args: argparse.Namespace, scripts: Path, scratch: str) -> None:
    sizes = (
        "type train_samples test_samples inferencing_samples n_features n_label_classes "
        "docs_per_query"
    )
    words = [word for name in sizes.split() for word in (f"--{name}", getattr(args, name))]
    words += ["--n_informative", args.n_features, "--random_state", 5]
    for kind in ("train", "test", "inference"):
        words += [f"--output_{kind}", args.out / kind]
    script = scripts / "data_processing" / "generate_data" / "generate.py"
    run(script, scratch, *words, "--external_header", Path(scratch, "header"))


def partition(args: argparse.Namespace, scripts: Path, scratch: str) -> None:
    script = scripts / "data_processing" / "partition_data" / "partition.py"
    places = ("--input", args.out / "train", "--output", args.out / "parts")
    run(script, scratch, *places, "--mode", "roundrobin", "--number", args.parts)


def train(args: argparse.Namespace, scripts: Path, scratch: str) -> None:
    objective, metric, custom = OBJECTIVES[args.type]
    words = ["--train", args.out / "train", "--test", args.out / "test"]
    words += ["--export_model", args.out / "model", "--objective", objective, "--metric", metric]
    words += ["--boosting_type", "gbdt", "--tree_learner", "serial", "--learning_rate", 0.1]
    words += ["--num_trees", args.model_trees, "--num_leaves", 31, "--min_data_in_leaf", 20]
    words += ["--max_bin", 255, "--feature_fraction", 1.0]
    # Labels are from 0 to --n_label_classes: the largest value is scaled to that.
    words += ["--custom_params", custom.format(classes=args.n_label_classes + 1)]
    if args.type == "lambdarank":
        words += ["--group_column", 0]
    run(scripts / "training" / "lightgbm_python" / "train.py", scratch, *words)


def compile_predictor(target: Path) -> None:
    """Raises SystemExit where there is no C compiler, or it fails."""
    import lightgbm

    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        sys.exit("no C compiler was found (cc, gcc, $CC): predict.c cannot be compiled")
    folder = Path(lightgbm.__file__).parent / "lib"
    [library] = folder.glob("lib_lightgbm.*")
    command = [compiler, "-O2", "-o", target, HERE / "predict.c", library, f"-Wl,-rpath,{folder}"]
    if subprocess.run(command).returncode:
        sys.exit(f"{compiler} could not compile predict.c against {library}")


def compile_with_mpi(target: Path) -> None:
    """The LightGBM of this environment once more, from its sources: its package is made without MPI.

    Raises SystemExit where there is no MPI, or it cannot be compiled.
    """
    for command in ("mpicc", "mpirun"):
        if shutil.which(command) is None:
            sys.exit(f"{command} was not found: {NEEDED}")
    check = ["mpicc", "-x", "c", "-fsyntax-only", "-"]
    if subprocess.run(check, input=b"#include <mpi.h>\n").returncode:
        sys.exit(f"mpicc does not find mpi.h: {NEEDED}")
    wanted = f"lightgbm=={importlib.metadata.version('lightgbm')}"
    how = ("--no-binary", "lightgbm", "--config-settings=cmake.define.USE_MPI=ON")
    # A wheel that was made before may be one without MPI.
    words = ["install", "--no-cache-dir", "--no-deps", "--target", str(target), *how, wanted]
    if subprocess.run([sys.executable, "-m", "pip", *words]).returncode:
        sys.exit(f"{wanted} could not be compiled with MPI: {NEEDED}")
    [library] = target.glob("lightgbm/lib/lib_lightgbm.*")
    if b"MPI_Init" not in library.read_bytes():
        sys.exit(f"{library} was compiled without MPI")


if __name__ == "__main__":
    main()

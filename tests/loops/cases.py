"""The programs of tests/programs/loops, and how each is called."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One call of one program."""

    words: str
    """As they stand behind ``python``."""
    code: int = 0
    """The exit code."""

    @property
    def name(self) -> str:
        """Short, for the name of a test."""
        return "_".join(word for word in self.words.split() if not word.startswith("-")).replace(
            "torch.distributed.run_2_", "torchrun_"
        )

    @property
    def program(self) -> str:
        """The file that trains."""
        return [word for word in self.words.split() if word.endswith(".py")][-1]


TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node 2"

LOADERS = [
    Case("loader_for.py"),
    Case("loader_enumerate.py"),
    Case("loader_next.py"),
    Case("loader_progress.py"),
    Case("loader_tqdm.py"),
    Case("loader_nested.py"),
    Case("loader_support.py"),
    Case("loader_zip.py"),
    Case("loader_workers.py"),
    Case("loader_workers.py keep"),
    Case("loader_iterable.py"),
    Case("loader_modules.py"),
    Case("loader_unbatched.py"),
    Case("loader_cycle.py"),
    Case("break_epoch.py"),
    Case("skip_batches.py"),
    Case("prefetcher.py"),
]
UPDATES = [
    Case("no_loader.py"),
    Case("module_level.py"),
    Case("accumulate.py"),
    Case("accumulate.py flush"),
    Case("two_optimizers.py"),
    Case("gan_loader.py"),
    Case("gan_every_fifth.py"),
    Case("gan_noise.py 1 20"),
    Case("gan_noise.py 5 8"),
    Case("closure_lbfgs.py"),
    Case("amp.py"),
    Case("grad_by_hand.py"),
    Case("by_hand.py"),
    Case("pretrain_finetune.py"),
    Case("two_threads.py"),
    Case("tiny.py 5000"),
    Case("rl_rollout.py"),
    Case("rl_reinforce.py"),
    Case("rl_dqn.py"),
]
EVALUATIONS = [
    Case("eval_epoch.py"),
    Case("eval_steps.py"),
    Case("eval_slow_loader.py"),
    Case("eval_half.py eval"),
    Case("eval_half.py no_grad"),
    Case("eval_train_set.py"),
    Case("eval_first.py"),
    Case("eval_no_loader.py"),
    Case("eval_forces.py"),
    Case("teacher.py"),
    Case("trainer_fit.py"),
    Case("trainer_module.py"),
]
STEPS = [
    Case("compiled.py"),
    Case("slow_first.py"),
    Case("metrics_time.py"),
    Case("checkpoints.py"),
    Case("encoder_decoder.py"),
    Case("recompute.py"),
    Case("language.py"),
    Case("dict_batches.py"),
    Case("graphs.py"),
    Case("batches.py"),
]
ENDS = [
    Case("trains_nothing.py numbers"),
    Case("trains_nothing.py inference"),
    Case("before_first.py setup", code=3),
    Case("before_first.py backward", code=4),
    Case("crash.py raise", code=1),
    Case("crash.py exit", code=5),
]
RANKS = [
    Case(f"{TORCHRUN} ddp.py 1"),
    Case(f"{TORCHRUN} sharded.py"),
    Case("spawned.py"),
]

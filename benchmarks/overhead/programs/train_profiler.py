"""``train_steps.py`` with its loops in ``torch.profiler``; starting and stopping it is not timed."""

import train_steps
from torch.profiler import ProfilerActivity, profile


def around():
    return profile(activities=[ProfilerActivity.CPU])


if __name__ == "__main__":
    train_steps.around = around
    train_steps.main()

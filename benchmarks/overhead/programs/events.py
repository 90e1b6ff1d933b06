"""A program that times its own functions: each once as it is and once under a name that is probed.

``events.py TURNS REPEATS`` prints one JSON line: for each case, pairs of nanoseconds a turn, the
plain twin's and the probed function's, measured in turns (plain, probed, plain, probed, ...).

The probed functions carry the names that every tool is to probe; their twins begin with
``plain_`` and are the same text. Nothing here knows which tool is at work.
"""

# ruff: noqa: B007, F841 (variables that are never read are what is probed)

import gc
import json
import sys
import time


def observe(n):
    value = 0.5  # what is observed most is a loss
    for i in range(n):
        x = value
    return x


def plain_observe(n):
    value = 0.5
    for i in range(n):
        x = value
    return x


def count(n):
    for i in range(n):
        x = i
    return x


def plain_count(n):
    for i in range(n):
        x = i
    return x


def answer(i):
    return i


def plain_answer(i):
    return i


def override(n):
    for i in range(n):
        answer(i)


def plain_override(n):
    for i in range(n):
        plain_answer(i)


def loop(n):
    for i in range(n):
        pass


def plain_loop(n):
    for i in range(n):
        pass


def inner(i):
    x = i


def plain_inner(i):
    x = i


def nested(n):
    for i in range(n):
        inner(i)


def plain_nested(n):
    for i in range(n):
        plain_inner(i)


def leaf(i):
    x = i


def plain_leaf(i):
    x = i


def stem(i):
    leaf(i)


def plain_stem(i):
    plain_leaf(i)


def entered(n):
    for i in range(n):
        stem(i)


def plain_entered(n):
    for i in range(n):
        plain_stem(i)


def bare_one(n):
    for i in range(n):
        plain_answer(i)


def bare_two(n):
    for i in range(n):
        plain_answer(i)


CASES = {
    "observe": (plain_observe, observe),
    "count": (plain_count, count),
    "override": (plain_override, override),
    "loop": (plain_loop, loop),
    "nested": (plain_nested, nested),
    "entered": (plain_entered, entered),
    # No probe names either of these two: their difference is this method's error.
    "unprobed": (bare_one, bare_two),
}


def nanoseconds_a_turn(function, turns):
    begin = time.thread_time_ns()
    function(turns)
    return (time.thread_time_ns() - begin) / turns


def measure(turns, repeats):
    pairs = {name: [] for name in CASES}
    for _ in range(repeats):
        for name, (plain, probed) in CASES.items():
            without = nanoseconds_a_turn(plain, turns)
            with_ = nanoseconds_a_turn(probed, turns)
            pairs[name].append((without, with_))
    return pairs


def main():
    turns, repeats = int(sys.argv[1]), int(sys.argv[2])
    for plain, probed in CASES.values():  # the interpreter specialises its bytecode first
        plain(min(turns, 500))
        probed(min(turns, 500))
    gc.disable()
    print(json.dumps(measure(turns, repeats)), flush=True)


if __name__ == "__main__":
    main()

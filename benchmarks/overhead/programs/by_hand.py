"""The floor: the hooks that a person would write into ``events.py`` by hand, nothing else.

``by_hand.py TURNS REPEATS`` prints the same line as ``events.py``.
"""

# ruff: noqa: B007, F841 (variables that are never read are what is probed)

from collections import deque

import events

keep = deque(maxlen=1000).append
inside = [0]


def hook(value):
    keep(value)
    return value


def observe(n):
    value = 0.5
    for i in range(n):
        x = hook(value)
    return x


def count(n):
    for i in range(n):
        x = hook(i)
    return x


def answer(i):
    return hook(i)


def override(n):
    for i in range(n):
        answer(i)


def loop(n):
    for i in range(n):
        hook(True)
        try:
            pass
        finally:
            hook(True)


def inner(i):
    x = hook_inside(i)


def hook_inside(value):
    if inside[-1]:
        keep(value)
    return value


def nested(n):
    inside.append(1)
    try:
        for i in range(n):
            inner(i)
    finally:
        inside.pop()


def stem(i):
    inside.append(1)
    try:
        inner(i)
    finally:
        inside.pop()


def entered(n):
    for i in range(n):
        stem(i)


for name in ("observe", "count", "override", "loop", "nested", "entered"):
    plain, _ = events.CASES[name]
    events.CASES[name] = (plain, globals()[name])

if __name__ == "__main__":
    events.main()

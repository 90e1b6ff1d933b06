import sys

print("before")


class Trouble(Exception):
    pass


def inner(x):
    y = x + 1
    raise Trouble("of", y)


def outer():
    for i in range(2):
        total = i
    inner(total)


if "finally" in sys.argv:
    try:
        outer()
    finally:
        print("cleanup")
outer()

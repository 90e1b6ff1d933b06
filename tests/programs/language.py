"""The shapes of assignment that rewriters stumble over."""
import functools


def pair():
    return map(str, (1, 2))


a, b = pair()
(c, d), *e = ("xy", 1, 2)
f = g = [0]
f[0] += 1
h: int
i: int = 5
for j, (k, *l) in enumerate([(1, 2, 3)]):
    pass
else:
    m = "else"
while (n := len(l)) < 2:
    break
with open(__file__) as file, open(__file__) as other:
    o = file.readline()
try:
    raise ValueError("q")
except ValueError as p:
    q = str(p)
print("p" in globals())


class Box:
    __slots__ = ("__inner", "value")
    count = 0

    def __init__(self):
        self.__inner, self.value = 1, [2]
        self.value[0] += self.__inner
        Box.count += 1

    def open(self, __open=open):
        open = __open
        return open is not None, self.__inner


def defaults(x=[], *args, y=len("abc"), **kwargs):
    """Doc."""
    x.append(y)
    del args
    try:
        args
    except UnboundLocalError as error:
        return x, type(error).__name__, kwargs
    return None


def nonlocals():
    total = 0

    def add(x):
        nonlocal total
        total += x
        return total

    add(1)
    return add


adder = nonlocals()
print(a, b, c, d, e, f, g, i, j, k, l, m, o, q, adder(2), adder(3))
print(Box().open(), Box.count, defaults(), defaults(z=1), defaults.__doc__, "h" in globals())
match {"kind": "train", "steps": [1, 2, 3]}:
    case {"kind": str(r), "steps": [s, *t]} if s:
        print(r, s, t)
print([u for u in range(3) if u], {v: w for v, w in zip("ab", (1, 2))}, functools.reduce(max, t))
import os as x, sys as y
from os import path as z

print(x.__name__, y.__name__, z is x.path, sorted(vars())[:3])
del a, b
print("a" in globals(), (lambda aa, *bb: (aa, bb))(1, 2), f"{c!r:>5}{d=}")

import copy
import pickle
import sys
from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int = 2


class Outer:
    class Inner:
        def method(self):
            return "inner"


def function(a, b=2):
    c = a + b
    return c


print(pickle.loads(pickle.dumps(Point(1))), pickle.loads(pickle.dumps(function)) is function)
print(type(pickle.loads(pickle.dumps(Outer.Inner()))) is Outer.Inner, Outer.Inner.__module__)
print(pickle.dumps(Point(3)), pickle.dumps(function), copy.deepcopy(Point(5)))
print(function.__module__, function.__qualname__, function.__code__.co_firstlineno)
print(pickle.dumps([print, len]), pickle.dumps(__import__("os").system))
with open("point.pickle", "wb") as file:
    pickle.dump(Point(7, 8), file)

import sys


class Thing:
    def __init__(self, name, other=None):
        self.name, self.other = name, other

    def __del__(self):
        print("del", self.name, sys is not None, __name__ if "__name__" in globals() else None)


first = Thing("first")
second = Thing("second", first)
cycle = Thing("cycle")
cycle.other = cycle
_private = Thing("private")
local = [Thing("in a list")]
del second


def holder(kept=Thing("default")):
    thing = Thing("local")
    return kept


holder()
sys.kept = Thing("on sys")
loop = Thing("loop")
for last in [Thing("loop variable")]:
    pass
try:
    raise ValueError(Thing("argument"))
except ValueError:
    print("handled")
if sys.argv[1:]:
    frame = sys._getframe()
    raise RuntimeError(Thing("uncaught"))

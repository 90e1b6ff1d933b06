import importlib
import sys

import neighbour

first = neighbour.double
print(neighbour.double(2), neighbour.__spec__.name, neighbour.__spec__.has_location)
neighbour.VALUE = "changed"
again = importlib.reload(neighbour)
print(again is neighbour, neighbour.VALUE, neighbour.double is first, neighbour.double(3))
del sys.modules["neighbour"]
print(importlib.import_module("neighbour") is neighbour)
importlib.invalidate_caches()
with open("made_now.py", "w") as file:
    file.write("x = 1\n\ndef f():\n    y = x\n    return y\n")
import made_now

print(made_now.f(), made_now.__file__)

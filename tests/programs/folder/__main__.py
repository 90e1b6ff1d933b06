import sys

import helper

print(__name__, __file__, __package__ == "", __spec__.name, sys.argv, sys.path[0], helper.HELP)
print(type(__loader__).__name__, helper.__file__)
if sys.argv[1:] == ["raise"]:
    helper.fail()

import sys
import types

import __main__

module = sys.modules["__main__"]
print(module is __main__, type(module) is types.ModuleType, vars(module) is globals(), module.__name__)
print(repr(module).replace(__file__, "FILE"))
value = 1
__main__.value = 2
print(value)


def set_it():
    global value
    value = 3


set_it()
print(__main__.value, module.value)
import importer_of_main

print(importer_of_main.seen)

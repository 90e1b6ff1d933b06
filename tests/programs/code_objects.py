"""Names and lines of code objects are what a tracer or debugger sees."""
import sys


def walk(code, depth=0):
    print(" " * depth, code.co_name, code.co_firstlineno, code.co_varnames, code.co_freevars)
    for constant in code.co_consts:
        if hasattr(constant, "co_name"):
            walk(constant, depth + 1)


def outer(a):
    b = a

    def inner():
        nonlocal b
        b += 1
        return b

    return inner


class Class:
    def __secret(self):
        self.__hidden = 1
        return self.__hidden

    def reveal(self):
        return self.__secret(), sorted(vars(self))


walk(outer.__code__)
print(outer(1)(), Class().reveal())
print(sys._getframe().f_code.co_name, sys._getframe().f_code.co_filename == __file__)
lines = []


def trace(frame, event, argument):
    if frame.f_code.co_filename == __file__:
        lines.append((frame.f_code.co_name, event, frame.f_lineno))
    return trace


sys.settrace(trace)
outer(1)()
sys.settrace(None)
print(lines)

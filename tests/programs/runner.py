"""Runs a script as debuggers and profilers do: compiled here, and given to exec."""

import sys
import types


def run(path, how):
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__file__ = path
    if how == "module":
        sys.modules["__main__"] = module
        exec(code, module.__dict__)
    elif how == "dict":
        space = {"__name__": "__main__", "__file__": path}
        exec(code, space, space)
    elif how == "here":
        exec("exec(code)", {"__name__": "__main__", "__file__": path, "code": code})
    else:
        exec(code, {"__name__": "other", "__file__": path})


def within():
    value = 1
    exec("print(sorted(locals()), value)")
    for wrong in (lambda: exec(), lambda: exec(3), lambda: exec("1 +")):
        try:
            wrong()
        except (TypeError, SyntaxError) as error:
            print(type(error).__name__, error)


if __name__ == "__main__":
    how, path = sys.argv[1:3]
    sys.argv[:] = sys.argv[2:]
    within()
    try:
        run(path, how)
    finally:
        within()
        print(exec, exec.__name__)

import contextlib
import sys


class Manager:
    def __enter__(self):
        print("enter")
        return self

    def __exit__(self, kind, error, trace):
        print("exit", kind and kind.__name__, trace.tb_lineno if trace else None)
        return kind is KeyError


@contextlib.contextmanager
def managed(x):
    y = x
    try:
        yield y
    finally:
        print("managed", y)


with Manager() as a, managed(2) as b:
    print(a is not None, b)
with Manager():
    raise KeyError("swallowed")
with contextlib.suppress(ZeroDivisionError), contextlib.redirect_stdout(sys.stderr):
    print("to stderr")
    1 / 0
with managed(3) as c:
    raise LookupError(c)

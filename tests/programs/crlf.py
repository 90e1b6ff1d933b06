import inspect

def f(x):
    """Doc
    more."""
    return """a
b"""

print(ascii(f(1)), ascii(f.__doc__))
print(ascii(inspect.getsource(f)))

import dis
import inspect
import linecache
import sys


def function(a, *, b=1):
    """Doc."""
    # a comment
    total = a + b
    return [x for x in range(total)]


class Class:
    """Class doc."""

    def method(self):
        value = lambda x: x + 1
        return value(1)


print(inspect.getsource(function), inspect.getsource(Class), inspect.getsource(Class.method))
print(inspect.getsourcelines(function)[1], inspect.getdoc(Class), inspect.getcomments(function))
print(inspect.getfile(function), inspect.getsourcefile(Class), inspect.getmodule(function))
print(inspect.signature(function), inspect.getmodulename(__file__))
print(linecache.getline(__file__, 1), function.__code__.co_filename, function.__code__.co_name)
print(len(inspect.getsource(sys.modules["__main__"])), function(2), Class().method())

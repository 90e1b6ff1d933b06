import sys

print(__name__, __file__, __spec__, __package__, __cached__, __doc__)
print(type(__loader__).__name__, __loader__.name, __loader__.path, __loader__.get_filename())
print(__loader__.is_package("__main__"), __loader__.get_source("__main__")[:10])
print(type(__builtins__).__name__, sys.modules["__main__"].__dict__ is globals())

import importlib.util
import sys


def lazy(name):
    spec = importlib.util.find_spec(name)
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


noisy = lazy("noisy_at_import")
print("not yet", type(noisy).__name__)
print(noisy.answer())
print(type(noisy).__name__)


def __getattr__(name):
    print("asked for", name)
    raise AttributeError(name)


import __main__

print(hasattr(__main__, "missing"))

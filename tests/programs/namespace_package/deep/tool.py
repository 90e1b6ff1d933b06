import namespace_package

print(__name__, __package__, type(namespace_package.__path__).__name__, namespace_package.__file__)

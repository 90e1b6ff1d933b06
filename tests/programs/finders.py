"""A finder and loader of its own, as editable installs and frameworks have them."""
import importlib.abc
import importlib.machinery
import importlib.util
import sys

SOURCES = {
    "virtual": "def f(x):\n    y = x * 3\n    return y\n",
    "virtual_pkg": "from . import part\n",
    "virtual_pkg.part": "VALUE = __name__, __package__\n",
}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, Loader(), is_package=name == "virtual_pkg")
        return None


class Loader(importlib.abc.Loader):
    def create_module(self, spec):
        print("create", spec.name)
        return None

    def exec_module(self, module):
        print("exec", module.__name__)
        exec(compile(SOURCES[module.__name__], f"<{module.__name__}>", "exec"), vars(module))


class Editable:
    """Maps a name to a folder elsewhere."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "mapped":
            return importlib.util.spec_from_file_location(name, "folder/helper.py")
        return None


sys.meta_path.insert(0, Finder())
sys.meta_path.append(Editable)
import mapped
import virtual
import virtual_pkg

print(virtual.f(2), virtual_pkg.part.VALUE, mapped.HELP, mapped.__file__)
print(virtual.__spec__.loader.__class__.__name__, virtual.__loader__ is virtual.__spec__.loader)


class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "forbidden":
            raise ImportError("not allowed", name=name)
        return None


sys.meta_path.insert(0, Refusing())
print([type(finder).__name__ for finder in sys.meta_path][:2])
import forbidden

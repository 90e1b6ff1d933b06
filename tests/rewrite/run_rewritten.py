"""Run a test module of CPython's own ``test`` package with rewritten modules, and tell how it went.

    python run_rewritten.py [--plain] [--override] TEST MODULE…

The rewriting happens in a process before: in the one that runs the tests nothing has been imported
that they would otherwise import, so modules as basic as ``enum`` or ``functools`` are rewritten too.
``MODULE`` may be ``*``: whatever is imported from the standard library. The last line of the output
is JSON: the outcome of each test by its name.
"""

import sys

DONE = "\nOUTCOME "


def prepare(names, override):
    """Write the code of some modules, with hooks at every place, to stdout."""
    import marshal
    import os

    sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), _root(os)]
    from rewriting import everything, plainly, weave

    found = {}
    for name, path in names:
        with open(path, "rb") as file:
            source = _decode(file.read())
        if override is None:
            found[name] = plainly(source, path)
        else:
            found[name] = weave(source, everything("test", override), path, name)[0]
    sys.stdout.buffer.write(marshal.dumps(found))


def _root(os):
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(os.path.dirname(here))


def _decode(data):
    import io
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.IncrementalNewlineDecoder(None, True).decode(data.decode(encoding))


class Finder:
    """Executes prepared code in place of what the loader would."""

    def __init__(self, codes, machinery):
        self.codes = codes
        self.machinery = machinery

        class Loader(machinery.SourceFileLoader):
            def get_code(self, fullname):
                return codes[fullname]

        self.loader = Loader

    def find_spec(self, name, path=None, target=None):
        if name not in self.codes:
            return None
        spec = self.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin:
            spec.loader = self.loader(name, spec.origin)
        return spec


def locate(names):
    """Name and file of modules, without importing more than their packages."""
    import os

    library = os.path.dirname(os.__file__)
    for name in names:
        base = os.path.join(library, *name.split("."))
        path = os.path.join(base, "__init__.py") if os.path.isdir(base) else base + ".py"
        if os.path.exists(path):
            yield name, path


def everywhere():
    """Every module of the standard library, its tests left out."""
    import os

    library = os.path.dirname(os.__file__)
    for folder, folders, files in os.walk(library):
        folders[:] = [f for f in folders if f not in ("test", "tests", "site-packages", "lib2to3")]
        for file in files:
            if file.endswith(".py"):
                parts = os.path.relpath(os.path.join(folder, file[:-3]), library).split(os.sep)
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def install(codes):
    """Hooks into builtins, the finder in front.

    The hooks are builtin functions, which no tracer sees: what it sees is the program's own.
    """
    import builtins
    import importlib.machinery
    from _functools import partial

    one = partial({}.get, object())
    two = partial(min, key=[].count)
    any_number = partial(partial, int)
    for number in range(32):
        hooks = {
            "": one if number else two,
            ".": any_number,
            "@": one,
            "@>": one,
            "~": NameError,
            "!": dict,
            "+": dict,
            "-": dict,
        }
        for suffix, hook in hooks.items():
            vars(builtins)[f"test:{number}{suffix}"] = hook
    sys.meta_path.insert(0, Finder(codes, importlib.machinery))


def run(test):
    """Run a test module; the outcome of each test."""
    import unittest

    class Result(unittest.TextTestResult):
        outcomes = {}

        def note(self, test, outcome):
            key = test.id() if hasattr(test, "id") else str(test)
            if hasattr(test, "test_case"):
                key = f"{test.test_case.id()} {test.params}"
            self.outcomes[key] = max(outcome, self.outcomes.get(key, ""))

        def addSuccess(self, test):
            super().addSuccess(test)
            self.note(test, "ok")

        def addError(self, test, err):
            super().addError(test, err)
            self.note(test, "wrong")

        def addFailure(self, test, err):
            super().addFailure(test, err)
            self.note(test, "wrong")

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.note(subtest, "wrong")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.note(test, "skipped")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            self.note(test, "expected")

    __import__("test." + test)
    module = sys.modules["test." + test]
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=0)
    runner.run(suite)
    return Result.outcomes


def main():
    arguments = sys.argv[1:]
    override = "--override" in arguments
    plain = "--plain" in arguments
    preparing = "--prepare" in arguments
    words = [word for word in arguments if not word.startswith("--")]
    if preparing:
        names = [tuple(word.split("=", 1)) for word in sys.stdin.read().split("\n") if word]
        prepare(names, None if plain else override)
        return
    test, *modules = words
    if "*" in modules:
        modules = sorted(everywhere())
    import marshal
    import os

    names = list(locate([*modules, "test." + test]))
    flags = [flag for flag in arguments if flag.startswith("--")]
    kept = os.environ.get("REWRITTEN_CODE")  # all of the library takes a while
    if kept and "*" in words and os.path.exists(kept):
        with open(kept, "rb") as file:
            codes = marshal.loads(file.read())
        codes.update(prepared([("test." + test, dict(names)["test." + test])], flags, os, marshal))
    else:
        codes = prepared(names, flags, os, marshal)
        if kept and "*" in words:
            with open(kept, "wb") as file:
                file.write(marshal.dumps(codes))
    install(codes)
    sys.path[0:1] = []
    outcomes = run(test)
    import json

    sys.stdout.flush()
    sys.stderr.flush()
    print(DONE + json.dumps(outcomes))


def prepared(names, flags, os, marshal):
    """The code of some modules, made by another process."""
    # subprocess would import half of what is to be rewritten.
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(there[0], 0)
        os.dup2(back[1], 1)
        for descriptor in (*there, *back):
            os.close(descriptor)
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "--prepare", *flags])
    os.close(there[0])
    os.close(back[1])
    with os.fdopen(there[1], "w") as to:
        to.write("\n".join(f"{name}={path}" for name, path in names))
    with os.fdopen(back[0], "rb") as source:
        data = source.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit("preparing failed")
    return marshal.loads(data)


if __name__ == "__main__":
    main()

"""Boots inject inside the program's own interpreter, then leaves no trace of having been there.

Python imports ``sitecustomize`` from the first folder of ``PYTHONPATH`` that has one; ``inject
run`` puts this folder there. Every Python that a program starts may come by here, old ones too, so
this file keeps to syntax that all of them read.

No other way into a process comes before its program, and is inherited by the processes which that starts: a
wrapper script would be seen in ``sys.argv`` and in tracebacks, and a ``.pth`` file would have to be installed
in each environment. Nothing of this may be seen afterwards (``sys_state.py`` and ``environment.py`` of
``tests/programs``), and the user's own sitecustomize is imported as well (``tests/launch/test_children.py``).
Under ``-S``, ``-I`` and ``-E`` Python imports none: such a process runs without us.
"""

# mypy: ignore-errors
# ruff: noqa: UP030, UP032

import gc
import os
import sys


def _restore(here):
    """Make environment and path what they would be without us. Returns the settings and ``sys.path[0]``."""
    values = [os.environ.pop(name, None) for name in ("INJECT_BOOT", "INJECT_PATH")]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if entries == [here]:
        del os.environ["PYTHONPATH"]
    elif entries == [os.path.join(here, "")]:  # written so when the variable was set but empty
        os.environ["PYTHONPATH"] = ""
    elif here in entries:
        entries.remove(here)
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    return values


def _boot(here, settings, path):
    """Import our package, which need not be on ``sys.path``, and boot. Returns what is to be called next.

    Without a garbage collection: a later one would have come at another moment than without us.
    """
    import _frozen_importlib as importing
    import _frozen_importlib_external as files

    allocated, collects = gc.get_count()[0], gc.isenabled()
    gc.disable()
    try:
        return _booted(here, settings, path, allocated, importing, files)
    finally:
        if collects:
            gc.enable()


def _booted(here, settings, path, allocated, importing, files):
    """Import the package from the folder around this one, and start."""
    package = os.path.dirname(os.path.dirname(here))
    if "injector" not in sys.modules:
        spec = files.spec_from_file_location(
            "injector", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
        )
        module = importing.module_from_spec(spec)
        sys.modules["injector"] = module
        spec.loader.exec_module(module)
    from injector.launch.start import start

    return start(settings, path, allocated)


def _wake():
    """Boot if a variable has settings for it. Returns what is to be called after the user's sitecustomize."""
    here = os.path.dirname(os.path.abspath(__file__))
    settings, path = _restore(here)
    known = sys.version_info >= (3, 10) and sys.implementation.name == "cpython"
    # What our hooks share between threads is guarded by the global interpreter lock, which a
    # free-threaded Python may run without. It is never taken off once it is on.
    locks = getattr(sys, "_is_gil_enabled", lambda: True)
    if settings and known and locks():
        try:
            return _boot(here, settings, path)
        except Exception as error:  # the program comes first
            sys.stderr.write("inject: not probing: {0}: {1}\n".format(type(error).__name__, error))
    return lambda: None


sys.modules.pop("sitecustomize", None)
_begin = _wake()
try:
    # The user's own, if there is one further down the path; if there is none, the ImportError is
    # what Python's site module expects to see.
    import sitecustomize  # noqa: F401
finally:
    _begin()

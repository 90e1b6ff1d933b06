"""What the names in a benchmark's templates mean. Of several sources the first that has a name wins:

1. the values that a matrix or a search gave the benchmark,
2. variables,
3. placeholders of machine, job and folders (:data:`TABLE`; docs/suites.md has it too, and a test compares),
4. the benchmark's own keys,
5. the system file,
6. the environment, for ``${UPPER_CASE}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from .expressions import Reference
from .functions import limited, number
from .problems import Mistake, Path, meant
from .templates import NotKnownYet, template

MOST_WORKERS, LEAST_WORKERS = 16, 2
"""Of data loaders, for ``{n_worker}``, unless the system file has other limits."""

DEVICES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""The device types of PyTorch: what ``{device_name}`` may be."""

LIBRARIES = {"cuda": "nccl", "rocm": "rccl", "xpu": "ccl", "hpu": "hccl", "cpu": "gloo"}
"""The communication library of each architecture."""
ARCHITECTURES = tuple(LIBRARIES)

Known = Mapping[str, Any]
"""The values of placeholders by name; derived ones too, see :class:`Context`."""


class Placeholder(NamedTuple):
    """One word that may stand in braces."""

    name: str
    text: str
    source: str
    """What decides it: ``machine``, ``job``, ``folder`` or ``benchmark``."""
    derived: Callable[[Known], Any] | None = None
    """Computes it from others if it is not given. Raises KeyError if one of these is not given either."""


def _inner(value: Any, *keys: str) -> Any:
    """What is in ``value`` under ``keys``, None if there is nothing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _workers(known: Known) -> int:
    """The workers of a data loader: as many as processors for a device, within limits."""
    cpu_options = _inner(known.get("system"), "options", "cpu")
    options = cpu_options if isinstance(cpu_options, Mapping) else {}
    if (fixed := options.get("n_workers")) is not None:
        return int(fixed)
    at_least = max(int(known["cpu_per_gpu"]), options.get("min", LEAST_WORKERS))
    return int(min(at_least, options.get("max", MOST_WORKERS)))


def _device(known: Known) -> str:
    arch = known["arch"]
    return "cuda" if arch == "rocm" else arch if arch in DEVICES else "cpu"


def _under(folder: str, group: str = "") -> Callable[[Known], str]:
    """Computes BASE/FOLDER, or a folder in it that is named after the value of ``group``."""

    def path(known: Known) -> str:
        return os.path.join(known["base"], folder, *([known[group]] if group else []))

    return path


_definition = itemgetter("definition")

TABLE: tuple[Placeholder, ...] = (
    Placeholder("arch", "cuda, rocm, xpu, hpu or cpu", "machine"),
    Placeholder("device_name", "what PyTorch calls such a device", "machine", _device),
    Placeholder(
        "ccl",
        "the communication library: nccl, rccl, ccl, hccl, gloo",
        "machine",
        lambda known: LIBRARIES.get(known["arch"], "gloo"),
    ),
    Placeholder("gpu_count", "accelerators of the machine", "machine"),
    Placeholder("cpu_count", "processors that may be used", "machine"),
    Placeholder(
        "cpu_per_gpu",
        "cpu_count // gpu_count",
        "machine",
        lambda known: int(known["cpu_count"]) // max(int(known["gpu_count"]), 1),
    ),
    Placeholder("n_worker", "cpu_per_gpu, at least 2 and at most 16", "machine", _workers),
    Placeholder(
        "gpu",
        "gpu.count, gpu.name, gpu.capacity",
        "machine",
        lambda known: {"count": known["gpu_count"], "arch": known["arch"]},
    ),
    Placeholder(
        "nodes",
        "the machines of the system file",
        "machine",
        lambda known: _inner(known.get("system"), "nodes") or [{"name": "local", "main": True}],
    ),
    Placeholder("device_count", "devices that this job uses", "job"),
    Placeholder("devices", "their names", "job"),
    Placeholder("base", "the base folder", "folder"),
    Placeholder("data", "the benchmark's data", "folder"),
    Placeholder("out", "where this process may write", "folder"),
    Placeholder("source", "the benchmark's sources", "folder"),
    Placeholder("cache", "what may be downloaded twice", "folder", _under("cache")),
    Placeholder("name", "the benchmark's name", "benchmark"),
    Placeholder("benchmark_folder", "the folder of its definition", "benchmark", _definition),
    Placeholder("milabench_name", "milabench's word for name", "benchmark", itemgetter("name")),
    Placeholder("milabench_code", "… for benchmark_folder", "benchmark", _definition),
    Placeholder("milabench_base", "… for base", "folder", itemgetter("base")),
    Placeholder("milabench_data", "BASE/data, shared by all", "folder", _under("data")),
    Placeholder("milabench_cache", "… for cache", "folder", itemgetter("cache")),
    Placeholder("milabench_runs", "BASE/runs", "folder", _under("runs")),
    Placeholder("milabench_extra", "BASE/extra/GROUP", "folder", _under("extra", "group")),
    Placeholder(
        "milabench_venv", "BASE/venv/INSTALL_GROUP", "folder", _under("venv", "install_group")
    ),
)

NAMES = {placeholder.name: placeholder for placeholder in TABLE}


class Context(dict[str, Any]):
    """The values of placeholders; those that are not given are derived when they are first looked up."""

    def __missing__(self, name: str) -> Any:
        known = NAMES.get(name)
        if known is None or known.derived is None:
            raise KeyError(name)
        value = self[name] = known.derived(self)
        return value


NOTHING: Any = object()
"""Stands for a missing value, where None is a value."""
PLAIN = (int, float, bool)
"""Types whose values contain no templates."""
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")


class Scope:
    """The names that the templates of one benchmark are evaluated with: see :class:`.expressions.Names`.

    Without a ``context`` nothing is known of a machine, and what needs one raises NotKnownYet.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        variables: Mapping[str, Any],
        context: Mapping[str, Any] | None = None,
        complete: bool = True,
    ) -> None:
        self.settings = settings
        self.values: Mapping[str, Any] = settings.get("matrix") or {}
        self.variables = variables
        self.context = {} if context is None else context
        self.complete = complete and context is not None
        """Whether a placeholder without a value is a mistake; else its value may become known later."""
        self.path: Path = ()
        """Where the template stands that is being evaluated."""
        self._resolving: list[str] = []
        """The references whose values are being resolved, each within the one before."""

    def at(self, path: Path, text: str) -> Any:
        """The value of the template ``text`` that stands at ``path``; raises Mistake, NotKnownYet."""
        before, self.path = self.path, path
        try:
            return template(text).value(self)
        finally:
            self.path = before

    # what expressions need

    def find(self, reference: Reference) -> Any:
        """The value of ``reference`` without templates. Raises Mistake, NotKnownYet."""
        name = reference.name
        # Most templates name a plain value, which needs none of what follows.
        sources = (self.values, self.variables)
        for source in sources:
            if name in source:
                value = source[name]
                if type(value) in PLAIN or (type(value) is str and not _may_be_template(value)):
                    return value
        first = reference.keys[0]
        # A matrix or a variable may have the name of a placeholder.
        if (
            first in NAMES
            and not reference.up
            and not any(key in source for source in sources for key in (name, first))
        ):
            return self._placeholder(reference.keys)
        key = f"{self.path[: -reference.up]}{name}" if reference.up else name
        if key in self._resolving:
            chain = " → ".join([*map(str, self._resolving[self._resolving.index(key) :]), key])
            raise Mistake(f"goes round in a circle: {chain}")
        self._resolving.append(key)
        try:
            path, value = self.look_up(reference)
            return self.resolved(path, value)
        finally:
            self._resolving.pop()

    def call(self, name: str, values: list[Any]) -> Any:
        """The value of ``expr(a)``, ``auto(a, b)`` or ``auto_batch(a)``. Raises Mistake, NotKnownYet."""
        if name == "expr":
            return _exactly(name, values, 1)[0]
        if name == "auto":
            automatic, otherwise = _exactly(name, values, 2)
            return automatic if self._is_automatic() else otherwise
        default = number(_exactly(name, values, 1)[0])
        if not self.complete:
            raise NotKnownYet(name)
        resize = self.context.get("auto_batch")
        return limited(resize(int(default))) if callable(resize) else default

    def _is_automatic(self) -> bool:
        """Whether ``auto(a, b)`` is ``a``: by the context, else by ``system.options.cpu.enabled``."""
        given = self.context.get("auto_cpus")
        if given is None and not self.complete:
            raise NotKnownYet("auto")
        if given is not None:
            return bool(given)
        enabled = _walk(self.variables.get("system"), ("options", "cpu", "enabled"))
        return bool(enabled) and enabled is not NOTHING

    # where names are looked for

    def look_up(self, reference: Reference) -> tuple[Path, Any]:
        """The keys of the benchmark where the value of ``reference`` stands, and the value as it was written.

        The keys are empty for a value from elsewhere. Raises Mistake, NotKnownYet.
        """
        keys = reference.keys
        if reference.up:
            above = len(self.path) - reference.up
            path = (*self.path[: max(above, 0)], *keys)
            value = _walk(self.settings, path)
            if above < 0 or value is NOTHING:
                raise Mistake(f"there is no key at {reference}")
            return path, value
        for source in (self.values, self.variables):
            if (value := _walk(source, keys)) is not NOTHING:
                return (), value
        if keys[0] in NAMES:
            return (), self._placeholder(keys)
        if (value := _walk(self.settings, keys)) is not NOTHING:
            return keys, value
        if (value := _walk(self.variables.get("system"), keys)) is not NOTHING:
            return (), value
        name = reference.name
        if _ENVIRONMENT.fullmatch(name) and name in os.environ:
            return (), os.environ[name].replace("{", "{{").replace("}", "}}")
        known = self._names()
        if "-" in name and name.split("-")[0] in known:
            raise Mistake(f"unknown name {name}; a minus wants spaces around it")
        raise Mistake(f"unknown name {name}{meant(name, known)}")

    def _placeholder(self, keys: Path) -> Any:
        """The value of a placeholder, or what is in it under the second of ``keys`` and so on."""
        name = str(keys[0])
        try:
            value = self.context[name]
        except KeyError as missing:
            if self.complete:
                what = missing.args[0]
                raise Mistake(f"{{{name}}} has no value here: {what} is missing") from None
            raise NotKnownYet(name) from None
        found = _walk(value, keys[1:]) if len(keys) > 1 else value
        if found is NOTHING:
            known = value if isinstance(value, Mapping) else ()
            raise Mistake(f"{{{name}}} has no {keys[1]}{meant(str(keys[1]), known)}")
        return found

    def resolved(self, path: Path, value: Any) -> Any:
        """``value``, which stands at ``path``, with its templates evaluated. Raises Mistake, NotKnownYet."""
        if isinstance(value, str):
            return self.at(path, value) if _may_be_template(value) else value
        if isinstance(value, list):
            return [self.resolved((*path, i), item) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.resolved((*path, key), item) for key, item in value.items()}
        return value

    def _names(self) -> list[str]:
        """Every word that may stand in braces, for hints."""
        own = [key for key in self.settings if key != "matrix"]
        maps = [key for key in own if isinstance(self.settings[key], Mapping)]
        deeper = [f"{key}.{inner}" for key in maps for inner in self.settings[key]]
        variables = (key for key in self.variables if key != "system")
        return [*self.values, *variables, *NAMES, *own, *deeper]


def _may_be_template(text: str) -> bool:
    return "{" in text or "(" in text


def _exactly(name: str, values: list[Any], wanted: int) -> list[Any]:
    """``values``, if they are as many as the function ``name`` takes. Raises Mistake if not."""
    if len(values) != wanted:
        raise Mistake(f"{name}() wants {wanted} values, not {len(values)}")
    return values


def _walk(value: Any, keys: Path) -> Any:
    """What is in ``value`` under ``keys``, else NOTHING.

    A key that has dots itself (``exp.model``) comes as several ``keys``.
    """
    if not keys:
        return value
    if isinstance(value, (list, tuple)):
        if isinstance(keys[0], str) and not keys[0].isdigit():
            return NOTHING
        index = int(keys[0])
        return _walk(value[index], keys[1:]) if -len(value) <= index < len(value) else NOTHING
    if type(value) is not dict and not isinstance(value, Mapping):
        return NOTHING
    if len(keys) == 1:
        return value.get(keys[0], NOTHING)
    for length in range(1, len(keys) + 1):
        key = keys[0] if length == 1 else ".".join(map(str, keys[:length]))
        if key in value and (found := _walk(value[key], keys[length:])) is not NOTHING:
            return found
    return NOTHING

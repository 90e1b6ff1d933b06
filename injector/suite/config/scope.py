"""What the names in a benchmark's templates mean: the nearest of several sources wins.

1. the values that a matrix or a search gave it, 2. variables, 3. placeholders of machine, job and
folders (:data:`TABLE`, which docs/suites.md has too, and a test holds it to it), 4. its own keys, 5. the
system file, 6. the environment, for ``${UPPER_CASE}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .expressions import Reference, limited, number
from .problems import Mistake, Path, meant
from .templates import NotKnownYet, template

MOST_WORKERS, LEAST_WORKERS = 16, 2

DEVICES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""The device types of PyTorch: what ``{device_name}`` may be."""

LIBRARIES = {"cuda": "nccl", "rocm": "rccl", "xpu": "ccl", "hpu": "hccl", "cpu": "gloo"}
"""The communication library of each architecture."""
ARCHITECTURES = tuple(LIBRARIES)

Known = Mapping[str, Any]


class Placeholder(NamedTuple):
    """One word that may stand in braces."""

    name: str
    text: str
    """What it stands for."""
    source: str
    """Who knows: ``machine``, ``job``, ``folder`` or ``benchmark``."""
    derived: Callable[[Known], Any] | None = None
    """What it is where it is not given; raises KeyError for what that takes and is not given either."""


def _inner(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _workers(known: Known) -> int:
    found = _inner(known.get("system"), "options", "cpu")
    options = found if isinstance(found, Mapping) else {}
    if (given := options.get("n_workers")) is not None:
        return int(given)
    at_least = max(int(known["cpu_per_gpu"]), options.get("min", LEAST_WORKERS))
    return int(min(at_least, options.get("max", MOST_WORKERS)))


def _device(known: Known) -> str:
    arch = known["arch"]
    return "cuda" if arch == "rocm" else arch if arch in DEVICES else "cpu"


def _under(folder: str, group: str = "") -> Callable[[Known], str]:
    def path(known: Known) -> str:
        return os.path.join(known["base"], folder, *([known[group]] if group else []))

    return path


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
    Placeholder(
        "benchmark_folder",
        "the folder of its definition",
        "benchmark",
        lambda known: known["definition"],
    ),
    Placeholder(
        "milabench_name", "milabench's word for name", "benchmark", lambda known: known["name"]
    ),
    Placeholder(
        "milabench_code", "… for benchmark_folder", "benchmark", lambda known: known["definition"]
    ),
    Placeholder("milabench_base", "… for base", "folder", lambda known: known["base"]),
    Placeholder("milabench_data", "BASE/data, shared by all", "folder", _under("data")),
    Placeholder("milabench_cache", "… for cache", "folder", lambda known: known["cache"]),
    Placeholder("milabench_runs", "BASE/runs", "folder", _under("runs")),
    Placeholder("milabench_extra", "BASE/extra/GROUP", "folder", _under("extra", "group")),
    Placeholder(
        "milabench_venv", "BASE/venv/INSTALL_GROUP", "folder", _under("venv", "install_group")
    ),
)

NAMES = {each.name: each for each in TABLE}


class Context(dict[str, Any]):
    """What placeholders mean: as given, and what follows from that when it is first looked up."""

    def __missing__(self, name: str) -> Any:
        known = NAMES.get(name)
        if known is None or known.derived is None:
            raise KeyError(name)
        value = self[name] = known.derived(self)
        return value


NOTHING: Any = object()
PLAIN = (int, float, bool)
"""Types of values that are what they are, in any scope."""
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")


class Scope:
    """What one benchmark's templates are evaluated in.

    With ``context`` None nothing is known of a machine, and what needs one raises NotKnownYet.
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
        """Whether what ``context`` does not tell is a mistake, not a thing to wait for."""
        self.path: Path = ()
        """Where the template stands that is being evaluated."""
        self.open: list[str] = []
        """The references that are being resolved."""

    def at(self, path: Path, text: str) -> Any:
        """The value of the template ``text`` that stands at ``path``; raises Mistake, NotKnownYet."""
        before, self.path = self.path, path
        try:
            return template(text).value(self)
        finally:
            self.path = before

    # what expressions ask for

    def find(self, reference: Reference) -> Any:
        name = reference.name
        # Most templates name a plain value: looked up before all that is slower.
        for source in (self.values, self.variables):
            if name in source:
                value = source[name]
                if type(value) in PLAIN or (type(value) is str and not _suspicious(value)):
                    return value
        first = reference.keys[0]
        if first in NAMES and not reference.up and not self.shadowed(name, str(first)):
            return self.given(reference.keys)
        key = f"{self.path[: -reference.up]}{name}" if reference.up else name
        if key in self.open:
            chain = " → ".join([*map(str, self.open[self.open.index(key) :]), key])
            raise Mistake(f"goes round in a circle: {chain}")
        self.open.append(key)
        try:
            path, value = self.look(reference)
            return self.resolved(path, value)
        finally:
            self.open.pop()

    def call(self, name: str, values: list[Any]) -> Any:
        if name == "expr":
            return _exactly(name, values, 1)[0]
        if name == "auto":
            worth, otherwise = _exactly(name, values, 2)
            return worth if self.automatic() else otherwise
        default = number(_exactly(name, values, 1)[0])
        if not self.complete:
            raise NotKnownYet(name)
        resize = self.context.get("auto_batch")
        return limited(resize(int(default))) if callable(resize) else default

    def automatic(self) -> bool:
        """Whether ``auto(a, b)`` is ``a``: as ``system.options.cpu.enabled`` says, else no."""
        given = self.context.get("auto_cpus")
        if given is None and not self.complete:
            raise NotKnownYet("auto")
        if given is not None:
            return bool(given)
        enabled = _walk(self.variables.get("system"), ("options", "cpu", "enabled"))
        return bool(enabled) and enabled is not NOTHING

    # where names are looked for

    def shadowed(self, name: str, first: str) -> bool:
        """Whether a matrix or a variable has taken a placeholder's name."""
        values, variables = self.values, self.variables
        return name in values or first in values or name in variables or first in variables

    def look(self, reference: Reference) -> tuple[Path, Any]:
        """What was written there, and where (empty where that is no key of the benchmark)."""
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
            return (), self.given(keys)
        if (value := _walk(self.settings, keys)) is not NOTHING:
            return keys, value
        if (value := _walk(self.variables.get("system"), keys)) is not NOTHING:
            return (), value
        name = reference.name
        if _ENVIRONMENT.fullmatch(name) and name in os.environ:
            return (), os.environ[name].replace("{", "{{").replace("}", "}}")
        every = self.names()
        if "-" in name and name.split("-")[0] in every:
            raise Mistake(f"unknown name {name}; a minus wants spaces around it")
        raise Mistake(f"unknown name {name}{meant(name, every)}")

    def given(self, keys: Path) -> Any:
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
        """``value`` without templates."""
        if isinstance(value, str):
            return self.at(path, value) if _suspicious(value) else value
        if isinstance(value, list):
            return [self.resolved((*path, i), each) for i, each in enumerate(value)]
        if isinstance(value, dict):
            return {k: self.resolved((*path, k), each) for k, each in value.items()}
        return value

    def names(self) -> list[str]:
        """Every word that may stand in braces."""
        own = [key for key in self.settings if key != "matrix"]
        maps = [key for key in own if isinstance(self.settings[key], Mapping)]
        deeper = [f"{key}.{inner}" for key in maps for inner in self.settings[key]]
        variables = (key for key in self.variables if key != "system")
        return [*self.values, *variables, *NAMES, *own, *deeper]


def _suspicious(text: str) -> bool:
    """Whether a text may be a template."""
    return "{" in text or "(" in text


def _exactly(name: str, values: list[Any], wanted: int) -> list[Any]:
    if len(values) != wanted:
        raise Mistake(f"{name}() wants {wanted} values, not {len(values)}")
    return values


def _walk(value: Any, keys: Path) -> Any:
    """What is under ``keys``, of which several may be one key with dots in it; else NOTHING."""
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

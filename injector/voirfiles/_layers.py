"""Time per layer (``inject run --layers DEPTH``): the calls of modules down to a depth, and their backward.

A module that no known one holds is a root, as soon as it is called; its submodules, down to the depth, are
its layers. What a compiler has put into a graph is not seen: a compiled module is one layer.

Backward is known by the nodes of autograd's graph that made what the lowest layers returned: from where a
gradient arrives at one until the next one's does, or until that backward ends, is that layer's. Hooks of
nodes run after all hooks of tensors, a program sees none of them at its tensors, and they hold no tensor.
"""

from __future__ import annotations

from _thread import get_ident
from time import perf_counter_ns
from typing import Any
from weakref import ref

import torch

from injector.voirfiles._batches import tensors

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
CALL = "/torch.nn.modules.module/Module/_wrapped_call_impl"
WRAPPED = (
    *("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"),
    *("_forward_module", "_original_module"),
)
"""Attributes in which compilers, and what distributes or checkpoints a model, hold it."""
APART = 8
"""Roots of one class that are kept apart: what is made anew in each step is one of the last."""
NESTED = 3
"""How deep tensors are looked for in what a layer returned."""

_C: Any = torch._C
_modes: Any = getattr(_C, "_len_torch_function_stack", lambda: 1)
_task: Any = _C._current_graph_task_id
_functions: Any = _C._functorch.peek_interpreter_stack
"""None outside of transforms of functions, such as ``torch.func.grad``."""


class LayerCalls:
    """What the calls of one layer have in common, of all modules that go by its name."""

    __slots__ = ("__weakref__", "arrived", "last", "root", "what")

    def __init__(self, backward: Backward, what: str, last: bool, root: int) -> None:
        self.what = what
        self.last = last
        """Whether no other layer lies in it."""
        self.root = root
        """Identity of the module that holds all of its root's layers."""
        self.arrived = lambda _: backward.arrived(self)


class Layers:
    """The modules whose calls are recorded."""

    def __init__(self, ov: Any) -> None:
        self.depth = ov.layers
        self.known: dict[int, tuple[Any, LayerCalls | None]] = {}
        """By identity: the module, watched and not kept; None for one that is no layer."""
        self.made: dict[tuple[int, str], LayerCalls] = {}
        self.roots: dict[str, list[int]] = {}
        self.numbers: dict[int, tuple[Any, int]] = {}
        """By identity of what a root is or wraps."""
        self.count = 0
        self.newest: dict[int, int] = {}
        """By thread, the number of the last node that has a hook; autograd counts its nodes in each."""
        self.backward = Backward(ov)

    def of(self, module: Any) -> LayerCalls | None:
        """The layer that a module is; None for one that is too deep."""
        known = self.known.get(id(module))
        if known is None or known[0]() is not module:
            self.add_root(module)
            known = self.known[id(module)]
        return known[1]

    def add_root(self, root: Any) -> None:
        """Name what ``root`` holds; a module that is shared has the first of its names.

        One that was called before, as a root of its own, is a layer from now on; one of another root's is
        not: a part that two models share is a layer of the first.
        """
        number = self.number(root)
        skipped: set[str] = set()
        """Paths of modules that another one only wraps: they are that layer."""
        held = {id(module) for module in root.modules()}
        for path, module in root.named_modules():
            if (inner := _wrapped(module)) is not None:
                skipped.add(f"{path}.{inner}" if path else inner)
            key = id(module)
            found = self.known.get(key)
            of_others = found is not None and found[0]() is module and found[1] is not None
            if module is not root and of_others and found[1].root not in held:  # type: ignore
                continue
            shown = _shown(path, skipped)
            deep = shown.count(".") + 1 if shown else 0
            layer = None
            if path not in skipped and deep <= self.depth and not _is_derived(module):
                last = deep == self.depth or not len(module._modules) or _is_compiled(module)
                layer = self.made.get((number, shown))
                if layer is None:
                    what = f"{shown}\t{_kind(module)}\t{number}"
                    layer = LayerCalls(self.backward, what, last, id(root))
                    self.made[number, shown] = layer
            self.known[key] = ref(module, self._forgetting(key)), layer

    def number(self, root: Any) -> int:
        """Of a root: the same for all that wraps one model, and for all replicas of a class."""
        model = root
        while (inner := _wrapped(model)) is not None:
            model = model._modules[inner]
        key = id(model)
        known = self.numbers.get(key)
        if known is not None and known[0]() is model:
            return known[1]
        mine = self.roots.setdefault(_kind(root), [])
        if len(mine) < (1 if getattr(root, "_is_replica", False) else APART):
            self.count += 1
            mine.append(self.count)
        self.numbers[key] = ref(model, lambda _: self.numbers.pop(key, None)), mine[-1]
        return mine[-1]

    def _forgetting(self, key: int) -> Any:
        return lambda _: self.known.pop(key, None)

    def watch(self, module: Any, result: Any) -> bool:
        """Hear of the gradients of what a lowest layer returned; whether its call counts: it does."""
        known = self.known.get(id(module))
        layer = None if known is None else known[1]
        if layer is None or not (layer.last or _is_compiled(module)):
            return True
        if torch.is_grad_enabled() and _C._get_tracing_state() is None and _functions() is None:
            # What was there before this call, such as the input of an Identity, another layer made.
            thread = get_ident()
            newest = before = self.newest.get(thread, -1)
            for node in _nodes(result):
                number = node._sequence_nr()
                if number > before:
                    newest = max(newest, number)
                    node.register_prehook(layer.arrived)
            self.newest[thread] = newest
        return True


class Backward:
    """The backward that goes on in each thread: the engine has one for each device."""

    def __init__(self, ov: Any) -> None:
        self.ov = ov
        self.open: dict[int, tuple[LayerCalls, int, int]] = {}
        """By thread, the layer, since when, and in which backward."""

    def arrived(self, layer: LayerCalls) -> None:
        """A gradient has come to the layer: what was before it is over."""
        now, thread, task = perf_counter_ns(), get_ident(), _task()
        current = self.open.get(thread)
        if current is not None:
            if current[0] is layer and current[2] == task:
                return
            self.end(thread, now)
        if current is None or current[2] != task:
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self.ended(task))
        self.open[thread] = layer, now, task

    def ended(self, task: int) -> None:
        """A backward is over."""
        now = perf_counter_ns()
        for thread in [thread for thread, each in self.open.items() if each[2] == task]:
            self.end(thread, now)

    def end(self, thread: int, now: int) -> None:
        """Record what was open in a thread."""
        layer, begun, _ = self.open.pop(thread)
        self.ov.span("layer.backward", begun, now, what=layer.what, of=layer)


def _nodes(result: Any) -> list[Any]:
    """The nodes that made the tensors in it."""
    if type(result) is torch.Tensor and not _modes():
        node = result.grad_fn
        return [] if node is None else [node]
    found: list[Any] = []
    with _C.DisableTorchFunction():
        for tensor in tensors(result, NESTED):
            node = tensor.grad_fn
            if node is not None and not any(node is each for each in found):
                found.append(node)
    return found


def _wrapped(module: Any) -> str | None:
    """The name by which a module that only wraps another one holds it."""
    for name in WRAPPED:
        if name in module._modules and (name[0] == "_" or type(module).__module__[:6] == "torch."):
            return name
    return None


def _shown(path: str, skipped: set[str]) -> str:
    """A path without what only wraps."""
    whole, parts = "", []
    for part in path.split(".") if path else ():
        whole = f"{whole}.{part}" if whole else part
        if whole not in skipped:
            parts.append(part)
    return ".".join(parts)


def _kind(module: Any) -> str:
    """The class of a module, and of the one that it wraps."""
    inner = _wrapped(module)
    name = type(module).__name__
    return name if inner is None else f"{name} of {_kind(module._modules[inner])}"


def _is_derived(module: Any) -> bool:
    """Whether it is a graph without weights, as compilers derive and call for what was compiled."""
    return "_graph" in module.__dict__ and not (module._modules or module._parameters)


def _is_compiled(module: Any) -> bool:
    """Whether what lies in it is not called where it could be seen."""
    if module.__dict__.get("_compiled_call_impl") is not None or "_orig_mod" in module._modules:
        return True
    return isinstance(module, torch.jit.ScriptModule)


def instrument_layers(ov: Any) -> None:
    """``layer`` and ``layer.backward``."""
    layers = Layers(ov)
    ov.region(
        CALL,
        "layer",
        when=[
            lambda self: layers.of(self) is not None,
            lambda self, result: layers.watch(self, result),
        ],
        of=lambda self: layers.of(self),
        what=lambda self: layers.of(self).what,  # type: ignore[union-attr]
        device=True,
    )

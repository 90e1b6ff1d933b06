"""Time per layer (``inject run --layers DEPTH``): the calls of modules down to a depth, and their backward.

A module that no known one holds is a root, as soon as it is called; its submodules, down to the depth, are
its layers. What a compiler has put into a graph is not seen: a compiled module is one layer.

Backward is known by the nodes of autograd's graph: from where a gradient arrives at what made the result of a
layer until one does at what it was called with, or at another layer's, is that layer's. Hooks of
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
LISTS = (torch.nn.ModuleList, torch.nn.ModuleDict)
HOLDERS = (torch.nn.ParameterList, torch.nn.ParameterDict)
NESTED = 3
"""How deep tensors are looked for in what a layer returned."""

_C: Any = torch._C
_modes: Any = getattr(_C, "_len_torch_function_stack", lambda: 1)
_task: Any = _C._current_graph_task_id
_functions: Any = _C._functorch.peek_interpreter_stack
"""None outside of transforms of functions, such as ``torch.func.grad``."""


class LayerCalls:
    """What the calls of one layer have in common, of all modules that go by its name."""

    __slots__ = ("__weakref__", "arrived", "last", "left", "parent", "root", "what")

    def __init__(
        self, backward: Backward, what: str, last: bool, root: int, parent: LayerCalls | None
    ) -> None:
        self.what = what
        self.last = last
        """Whether no other layer lies in it."""
        self.root = root
        """Identity of the module that holds all of its root's layers."""
        self.parent = parent
        """The layer that it lies in."""
        self.arrived = lambda _: backward.arrived(self)
        self.left = lambda _: backward.left(self)

    def lies_in(self, other: LayerCalls) -> bool:
        """Whether it is ``other``, or within it."""
        layer: LayerCalls | None = self
        while layer is not None and layer is not other:
            layer = layer.parent
        return layer is not None


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
        lists: set[str] = set()
        """Paths of modules that only hold others, and are not called: what they hold is no level deeper."""
        held = {id(module) for module in root.modules()}
        for path, module in root.named_modules():
            if (inner := _wrapped(module)) is not None:
                skipped.add(f"{path}.{inner}" if path else inner)
            key = id(module)
            found = self.known.get(key)
            of_others = found is not None and found[0]() is module and found[1] is not None
            if module is not root and of_others and found[1].root not in held:  # type: ignore
                continue
            if isinstance(module, LISTS):
                lists.add(path)
            shown, deep = _shown(path, skipped, lists)
            layer = None
            no_layer = path in skipped or path in lists or _is_derived(module)
            if deep <= self.depth and not no_layer:
                last = deep == self.depth or _is_lowest(module) or _is_compiled(module)
                layer = self.made.get((number, shown))
                if layer is None:
                    what = f"{shown}\t{_kind(module)}\t{number}"
                    parent = self.around(number, shown)
                    layer = LayerCalls(self.backward, what, last, id(root), parent)
                    self.made[number, shown] = layer
            self.known[key] = ref(module, self._forgetting(key)), layer

    def around(self, number: int, path: str) -> LayerCalls | None:
        """The layer of a root that the one of this path lies in."""
        while path:
            path = path.rpartition(".")[0]
            found = self.made.get((number, path))
            if found is not None:
                return found
        return None

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

    def watch(self, module: Any, result: Any, args: Any, kwargs: Any) -> bool:
        """Hear of the gradients of what a layer returned and was called with; its call counts: True."""
        known = self.known.get(id(module))
        layer = None if known is None else known[1]
        if layer is None or not torch.is_grad_enabled():
            return True
        if _C._get_tracing_state() is not None or _functions() is not None:
            return True
        thread = get_ident()
        before = self.newest.get(thread, -1)
        # What was there before this call, such as the input of an Identity, another layer made.
        least = before + 1 if layer.last else before
        made = -1
        for node in _nodes(result):
            number = node._sequence_nr()
            if number >= least:
                made = max(made, number)
                node.register_prehook(layer.arrived)
        if made >= 0:
            # The engine works on what is newest first: on all of this layer, then on what it was given.
            # Where that is what the last layer returned, the end is known by the begin of that one.
            first = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
            given = {node._sequence_nr(): node for node in _nodes(first)}
            number = max(given, default=made)
            if number < made and not (layer.last and number == before):
                given[number].register_prehook(layer.left)
        self.newest[thread] = max(before, made)
        return True


class Backward:
    """The backward that goes on in each thread: the engine has one for each device.

    Of each moment one layer has the time: that whose gradient came last, or, when that is through, the one
    around it.
    """

    def __init__(self, ov: Any) -> None:
        self.ov = ov
        self.open: dict[int, tuple[LayerCalls, int, int]] = {}
        """By thread, the layer that has the time, since when, and in which backward."""
        self.entered: dict[int, list[LayerCalls]] = {}
        """By thread, the layers whose gradient has come, and that are not through."""
        self.tasks: dict[int, int] = {}
        """By thread, the last backward whose end will be heard of."""

    def arrived(self, layer: LayerCalls) -> None:
        """A gradient has come to what the layer returned."""
        now, thread, task = perf_counter_ns(), get_ident(), _task()
        current = self.open.get(thread)
        if self.tasks.get(thread) != task:
            self.tasks[thread] = task
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self.ended(task))
        entered = self.entered.get(thread, ())
        self.entered[thread] = [*(each for each in entered if layer.lies_in(each)), layer]
        if current is not None:
            if current[2] == task and current[0].lies_in(layer):
                self.entered[thread] += [each for each in entered if each.lies_in(layer)]
                return  # both returned the same
            self.end(thread, now)
        self.open[thread] = layer, now, task

    def left(self, layer: LayerCalls) -> None:
        """A gradient has come to what the layer was called with: it is through."""
        now, thread = perf_counter_ns(), get_ident()
        current = self.open.get(thread)
        self.entered[thread] = [
            each for each in self.entered.get(thread, ()) if not each.lies_in(layer)
        ]
        if current is not None and current[0].lies_in(layer):
            self.end(thread, now)
            if layer.parent in self.entered[thread]:
                self.open[thread] = layer.parent, now, current[2]

    def ended(self, task: int) -> None:
        """A backward is over."""
        now = perf_counter_ns()
        for thread in [thread for thread, each in self.open.items() if each[2] == task]:
            self.end(thread, now)
            self.entered.pop(thread, None)

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


def _shown(path: str, skipped: set[str], lists: set[str]) -> tuple[str, int]:
    """A path without what only wraps, and how deep that is."""
    whole, parts, deep = "", [], 0
    for part in path.split(".") if path else ():
        whole = f"{whole}.{part}" if whole else part
        if whole not in skipped:
            parts.append(part)
            deep += whole not in lists
    return ".".join(parts), deep


def _is_lowest(module: Any) -> bool:
    """Whether no module lies in it but those that hold parameters, and are not called."""
    return all(isinstance(each, HOLDERS) for each in module._modules.values() if each is not None)


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
            lambda self, result, args, kwargs: layers.watch(self, result, args, kwargs),
        ],
        of=lambda self: layers.of(self),
        what=lambda self: layers.of(self).what,  # type: ignore[union-attr]
        device=True,
    )

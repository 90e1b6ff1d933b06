"""Time per layer (``inject run --layers DEPTH``): the calls of modules down to a depth, and their backward.

A module that is called and is no layer yet becomes a root: its submodules, down to the depth, are its layers.
The parts of a compiled module are not called one by one: it is one layer.

Backward is followed by hooks at nodes of autograd's graph. A layer's backward lasts from when a gradient
arrives at the node that made its result::

    forward:   input --> layer A --> layer B --> loss
    backward:        A's left <-- A's result <-- B's result

until one arrives at the node that made its input, or at the result of another layer. Hooks of nodes run after
all hooks of tensors, do not show at the program's tensors, and keep no tensor alive.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any
from weakref import ref

import torch

from injector.voirfiles._batches import tensors

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
CALL_NAME = "_wrapped_call_impl"
CALL = f"/torch.nn.modules.module/Module/{CALL_NAME}"
WRAPPED = (
    *("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"),
    *("_forward_module", "_original_module"),
)
"""Attributes in which a wrapper holds the model that it compiles, distributes or checkpoints."""
MOST_ROOTS = 8
"""Roots of one class with a number each. Further ones, such as one made in each step, share the last."""
LISTS = (torch.nn.ModuleList, torch.nn.ModuleDict)
PARAMETER_LISTS = (torch.nn.ParameterList, torch.nn.ParameterDict)
DEPTH_OF_RESULTS = 3
"""Levels of tuples and mappings in what a layer returned that are searched for tensors."""

_C: Any = torch._C
_function_modes: Any = getattr(_C, "_len_torch_function_stack", lambda: 1)
_current_task: Any = _C._current_graph_task_id
_function_transforms: Any = _C._functorch.peek_interpreter_stack
"""Returns None outside of transforms of functions, such as ``torch.func.grad``."""


class LayerCalls:
    """One layer: a path in a root. The modules of several roots may share it."""

    def __init__(
        self, backward: Backward, what: str, is_lowest: bool, root: int, parent: LayerCalls | None
    ) -> None:
        self.what = what
        """Path, class and number of the root, separated by tabs."""
        self.is_lowest = is_lowest
        """Whether no other layer lies in it."""
        self.root = root
        """The ``id`` of the root that was the first to have it."""
        self.parent = parent
        """The layer that it lies in."""
        self.gradient_arrived = lambda _: backward.gradient_arrived(self)
        self.gradient_left = lambda _: backward.gradient_left(self)

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
        self.by_id: dict[int, tuple[Any, LayerCalls | None]] = {}
        """By ``id`` of a module: a weak reference to it, and its layer or None."""
        self.by_path: dict[tuple[int, str], LayerCalls] = {}
        """By number of the root, and path in it."""
        self.roots: dict[str, list[int]] = {}
        """The numbers of the roots of each class."""
        self.root_numbers: dict[int, tuple[Any, int]] = {}
        """By ``id`` of the model that a root is or wraps: a weak reference to it, and its number."""
        self.count = 0
        """The number of the last root."""
        self.newest_node: dict[int, int] = {}
        """By thread, the number of the last node that has a hook. Autograd numbers nodes in each thread."""
        self.backward = Backward(ov)

    def of(self, module: Any) -> LayerCalls | None:
        """The layer that a module is, or None. A new one becomes a root, unless a compiler calls it."""
        entry = self.by_id.get(id(module))
        if entry is None or entry[0]() is not module:
            if _is_compilers_call():
                return None
            self.add_root(module)
            entry = self.by_id[id(module)]
        return entry[1]

    def add_root(self, root: Any) -> None:
        """Make layers of the modules in ``root``; one that is held in several places has its first path.

        A module that was called before, as a root of its own, is a layer of this root from now on. A module
        that another model shares stays a layer of that model's root.
        """
        number = self.number(root)
        skipped: set[str] = set()
        """Paths of modules that another one only wraps: they are no layers beside it."""
        lists: set[str] = set()
        """Paths of lists, which are not called: what they hold is no level deeper."""
        held = {id(module) for module in root.modules()}
        for path, module in root.named_modules():
            if (inner := _wrapped(module)) is not None:
                skipped.add(f"{path}.{inner}" if path else inner)
            key = id(module)
            entry = self.by_id.get(key)
            is_layer = entry is not None and entry[0]() is module and entry[1] is not None
            if module is not root and is_layer and entry[1].root not in held:  # type: ignore
                continue
            if isinstance(module, LISTS):
                lists.add(path)
            shown, depth = _shown_path(path, skipped, lists)
            layer = None
            no_layer = path in skipped or path in lists or _is_compilers_graph(module)
            if depth <= self.depth and not no_layer:
                layer = self.by_path.get((number, shown))
                if layer is None:
                    layer = self._new_layer(module, number, shown, depth, root)
            self.by_id[key] = ref(module, self._forgetting(key)), layer

    def _new_layer(self, module: Any, number: int, path: str, depth: int, root: Any) -> LayerCalls:
        """Make the layer at ``path`` of the ``root`` with this number, for ``module`` at this depth."""
        is_lowest = depth == self.depth or _is_lowest(module) or _is_compiled(module)
        what = f"{path}\t{_class_name(module)}\t{number}"
        layer = LayerCalls(self.backward, what, is_lowest, id(root), self.parent_of(number, path))
        self.by_path[number, path] = layer
        return layer

    def parent_of(self, number: int, path: str) -> LayerCalls | None:
        """The layer that the one at ``path`` lies in, or None."""
        while path:
            path = path.rpartition(".")[0]
            layer = self.by_path.get((number, path))
            if layer is not None:
                return layer
        return None

    def number(self, root: Any) -> int:
        """The number of a root: the same for all wrappers of one model, and for all replicas of a class."""
        model = root
        while (inner := _wrapped(model)) is not None:
            model = model._modules[inner]
        key = id(model)
        entry = self.root_numbers.get(key)
        if entry is not None and entry[0]() is model:
            return entry[1]
        of_class = self.roots.setdefault(_class_name(root), [])
        if len(of_class) < (1 if getattr(root, "_is_replica", False) else MOST_ROOTS):
            self.count += 1
            of_class.append(self.count)
        forget = lambda _: self.root_numbers.pop(key, None)
        self.root_numbers[key] = ref(model, forget), of_class[-1]
        return of_class[-1]

    def _forgetting(self, key: int) -> Any:
        return lambda _: self.by_id.pop(key, None)

    def watch(self, module: Any, result: Any, args: Any, kwargs: Any) -> bool:
        """Have ``backward`` called for gradients of what a layer returned and was called with.

        Always True: the call of the layer is recorded.
        """
        entry = self.by_id.get(id(module))
        layer = None if entry is None else entry[1]
        if layer is None or not torch.is_grad_enabled():
            return True
        if _C._get_tracing_state() is not None or _function_transforms() is not None:
            return True
        thread = get_ident()
        before = self.newest_node.get(thread, -1)
        # Another layer made the nodes from before this call, such as the input of an Identity.
        least = before + 1 if layer.is_lowest else before
        newest = -1
        for node in _nodes(result):
            number = node._sequence_nr()
            if number >= least:
                newest = max(newest, number)
                node.register_prehook(layer.gradient_arrived)
        if newest >= 0:
            # The engine takes the newest nodes first: all of this layer, then those of its input. If another
            # layer returned the input, this layer's end is known by the begin of that one.
            first = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
            inputs = {node._sequence_nr(): node for node in _nodes(first)}
            number = max(inputs, default=newest)
            if number < newest and not (layer.is_lowest and number == before):
                inputs[number].register_prehook(layer.gradient_left)
        self.newest_node[thread] = max(before, newest)
        return True


class Backward:
    """The backward that goes on in each thread; the engine has a thread for each device.

    Each moment counts for one layer: the one whose gradient arrived last, or its parent when that is through.
    """

    def __init__(self, ov: Any) -> None:
        self.ov = ov
        self.open: dict[int, tuple[LayerCalls, int, int]] = {}
        """By thread, the layer that time counts for, since when, and in which backward."""
        self.entered: dict[int, list[LayerCalls]] = {}
        """By thread, the layers whose gradient has arrived, and that are not through."""
        self.tasks: dict[int, int] = {}
        """By thread, the last backward that will call :meth:`ended`."""

    def gradient_arrived(self, layer: LayerCalls) -> None:
        """Begin the backward of a layer: a gradient has arrived at the node that made its result."""
        now, thread, task = perf_counter_ns(), get_ident(), _current_task()
        current = self.open.get(thread)
        if self.tasks.get(thread) != task:
            self.tasks[thread] = task
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self.ended(task))
        entered = self.entered.get(thread, ())
        self.entered[thread] = [*(outer for outer in entered if layer.lies_in(outer)), layer]
        if current is not None:
            if current[2] == task and current[0].lies_in(layer):
                # Both returned the same tensor.
                self.entered[thread] += [inner for inner in entered if inner.lies_in(layer)]
                return
            self.end(thread, now)
        self.open[thread] = layer, now, task

    def gradient_left(self, layer: LayerCalls) -> None:
        """End the backward of a layer: a gradient has arrived at the node that made its input."""
        now, thread = perf_counter_ns(), get_ident()
        current = self.open.get(thread)
        entered = self.entered.get(thread, ())
        self.entered[thread] = [other for other in entered if not other.lies_in(layer)]
        if current is not None and current[0].lies_in(layer):
            self.end(thread, now)
            if layer.parent in self.entered[thread]:
                self.open[thread] = layer.parent, now, current[2]

    def ended(self, task: int) -> None:
        """End what is open of the backward ``task``, in all threads."""
        now = perf_counter_ns()
        for thread in [
            thread for thread, (_, _, its_task) in self.open.items() if its_task == task
        ]:
            self.end(thread, now)
            self.entered.pop(thread, None)

    def end(self, thread: int, now: int) -> None:
        """Record the layer that was open in a thread, up to ``now``."""
        layer, begun, _ = self.open.pop(thread)
        self.ov.span("layer.backward", begun, now, what=layer.what, of=layer)


def _nodes(result: Any) -> list[Any]:
    """The nodes of autograd's graph that made the tensors in ``result``, each once."""
    if type(result) is torch.Tensor and not _function_modes():
        node = result.grad_fn
        return [] if node is None else [node]
    nodes: list[Any] = []
    with _C.DisableTorchFunction():
        for tensor in tensors(result, DEPTH_OF_RESULTS):
            node = tensor.grad_fn
            if node is not None and not any(node is other for other in nodes):
                nodes.append(node)
    return nodes


def _wrapped(module: Any) -> str | None:
    """The name by which a module that only wraps another one holds that, or None."""
    for name in WRAPPED:
        if name in module._modules and (name[0] == "_" or type(module).__module__[:6] == "torch."):
            return name
    return None


def _shown_path(path: str, skipped: set[str], lists: set[str]) -> tuple[str, int]:
    """``path`` without the names of what wrappers hold, and its depth, for which lists do not count."""
    whole, parts, depth = "", [], 0
    for part in path.split(".") if path else ():
        whole = f"{whole}.{part}" if whole else part
        if whole not in skipped:
            parts.append(part)
            depth += whole not in lists
    return ".".join(parts), depth


def _is_lowest(module: Any) -> bool:
    """Whether a module holds no others, but for lists of parameters, which are not called."""
    children = (child for child in module._modules.values() if child is not None)
    return all(isinstance(child, PARAMETER_LISTS) for child in children)


def _class_name(module: Any) -> str:
    """The class of a module, and of the one that it wraps: ``"DataParallel of ResNet"``."""
    inner = _wrapped(module)
    name = type(module).__name__
    return name if inner is None else f"{name} of {_class_name(module._modules[inner])}"


def _is_compilers_graph(module: Any) -> bool:
    """Whether a module is one of the graphs without weights that a compiler makes and runs itself."""
    return "_graph" in module.__dict__ and not (module._modules or module._parameters)


def _is_compilers_call() -> bool:
    """Whether a compiler calls the present module: while it traces, or in a graph that it made.

    Before PyTorch 2.5, modules of PyTorch's own stay whole within the graphs, which hold copies of them.
    """
    if torch._guards.TracingContext.try_get() is not None:
        return True
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != CALL_NAME:
        frame = frame.f_back
    caller = frame and frame.f_back
    return caller is not None and caller.f_code.co_filename.startswith("<eval_with_key>")


def _is_compiled(module: Any) -> bool:
    """Whether the parts of a module are compiled into one, so that they are not called one by one."""
    if module.__dict__.get("_compiled_call_impl") is not None or "_orig_mod" in module._modules:
        return True
    return isinstance(module, torch.jit.ScriptModule)


def instrument_layers(ov: Any) -> None:
    """``layer`` and ``layer.backward``: calls of layers, and their gradients."""
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

"""Time per layer (``inject run --layers DEPTH``): the calls of modules down to a depth, and their backward.

A module that no known one holds is a root, as soon as it is called; its submodules, down to the depth, are
its layers. What a compiler has put into a graph is not seen: a compiled module is one layer. Backward is
known by the gradients of what the lowest layers returned: from where one arrives until the next one does, or
until that backward ends, is that layer's.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any
from weakref import ref

import torch

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
CALL = "/torch.nn.modules.module/Module/_wrapped_call_impl"
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")


class Layers:
    """The modules whose calls are recorded, and the backward that is going on."""

    def __init__(self, ov: Any) -> None:
        self.ov, self.depth = ov, ov.layers
        self.known: dict[int, tuple[Any, str, bool]] = {}
        """By identity: the module, watched and not kept; its path, empty for one that is too deep; whether
        no other layer lies in it."""
        self.roots = 0
        self.open: tuple[int, int] | None = None
        """The layer whose backward goes on, and since when."""

    def name(self, module: Any) -> str:
        """The path of a layer; empty for a module that is none."""
        known = self.known.get(id(module))
        if known is None or known[0]() is not module:
            self.add_root(module)
            known = self.known[id(module)]
        return known[1]

    def add_root(self, root: Any) -> None:
        """Name ``root`` and what it holds; a module that is shared has the first of its names."""
        kind = type(root).__name__
        self.roots += 1
        for path, module in root.named_modules():
            key = id(module)
            found = self.known.get(key)
            if module is not root and found is not None and found[0]() is module:
                continue  # it was called by itself before
            for word in WRAPPERS:
                path = f".{path}".replace(f".{word}", ".")[1:]
            level = path.count(".") + 1 if path.strip(".") else 0
            shown = (
                ""
                if level > self.depth
                else f"{path or kind}\t{type(module).__name__}\t{self.roots}"
            )
            last = level == self.depth or not module._modules
            self.known[key] = ref(module, self._forgetting(key)), shown, last

    def _forgetting(self, key: int) -> Any:
        return lambda _: self.known.pop(key, None)

    def watch(self, module: Any, result: Any) -> bool:
        """Hear of the gradient of what a lowest layer returned; whether its call counts: it does."""
        key = id(module)
        last = self.known[key][2] or _is_compiled(module)
        if last and torch.is_grad_enabled() and torch._C._get_tracing_state() is None:
            tensor = _first(result)
            if tensor is not None:
                try:
                    tensor.register_hook(lambda _: self.arrived(key))
                except RuntimeError:  # one that a transform of functions made
                    pass
        return True

    def arrived(self, key: int) -> None:
        """A gradient has come to the layer: what was before it is over."""
        now = perf_counter_ns()
        if self.open is None:
            torch.autograd.Variable._execution_engine.queue_callback(self.ended)
        else:
            self.end(now)
        self.open = key, now

    def ended(self) -> None:
        """The backward is over."""
        if self.open is not None:
            self.end(perf_counter_ns())
            self.open = None

    def end(self, now: int) -> None:
        """Record the backward that was open, if its module is still there."""
        assert self.open is not None
        key, begun = self.open
        known = self.known.get(key)
        module = None if known is None else known[0]()
        if known is not None and module is not None:
            self.ov.span("layer.backward", begun, now, what=known[1], of=module)


def _first(result: Any) -> Any:
    """The first tensor in it that a gradient will come to; None of none."""
    if type(result) is torch.Tensor:
        return None if result.grad_fn is None else result
    parts = result.values() if isinstance(result, dict) else result
    if not isinstance(parts, (tuple, list, type({}.values()))):
        return None
    return next((part for part in map(_first, parts) if part is not None), None)


def _is_compiled(module: Any) -> bool:
    """Whether what lies in it is not called where it could be seen."""
    in_place = module.__dict__.get("_compiled_call_impl") is not None
    return in_place or "_orig_mod" in module._modules


def instrument_layers(ov: Any) -> None:
    """``layer`` and ``layer.backward``."""
    layers = Layers(ov)
    ov.region(
        CALL,
        "layer",
        when=[
            lambda self: bool(layers.name(self)),
            lambda self, result: layers.watch(self, result),
        ],
        of=lambda self: self,
        what=lambda self: layers.name(self),
        device=True,
    )

"""JAX: tracing, compiling, copies to the device, and where the program waits for it.

A call of a function of `jax.jit` runs no Python, and nothing can be put in its place without being seen by
the program: it is not recorded. One of `flax.nnx.jit` or `equinox.filter_jit` is: `compiled`, an update of
the training where parameters were updated while it was traced. Steps are known there, and where optax updates
parameters outside of jit; otherwise `ov.step` of a voirfile names the function that makes one.

A call returns before the device is done, on a CPU as well: what it takes shows as `wait`, where the program
reads a value. `x.block_until_ready()` is written in C and not recorded, `jax.block_until_ready(x)` is.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

LIBRARY = "jax"
TESTED = ("0.4.26", "0.10.2")


TIMED = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
"""What JAX itself measures, and what it is called here."""


def instrument_compile(ov: Any) -> None:
    def listen(_: Any) -> None:
        from jax import monitoring

        monitoring.register_event_duration_secs_listener(ended)

    def ended(event: str, duration: float, **about: Any) -> None:
        name = TIMED.get(event)
        if name is not None:
            end = perf_counter_ns()
            what = about.get("fun_name")
            ov.span(name, end - int(duration * 1e9), end, what=what and str(what))

    ov.after_import("jax.monitoring", listen)


def instrument_copies(ov: Any) -> None:
    ov.region(
        "/jax._src.api/device_put",
        "h2d",
        when=lambda x: host_bytes(x) > 0,
        nbytes=lambda x: host_bytes(x),
        outermost=True,
    )


def instrument_waiting(ov: Any) -> None:
    ov.region("/jax._src.api/block_until_ready", "wait", outermost=True)
    ov.region(  # float(loss), loss.item(), numpy.asarray(loss), print(loss)
        "/jax._src.array/ArrayImpl/_value",
        "wait",
        when=lambda self: self._npy_value is None,
        outermost=True,
    )


def instrument_end(ov: Any) -> None:
    ov.after_import("jax", lambda jax: ov.synchronize(lambda: wait_for_all(ov, jax)))


def wait_for_all(ov: Any, jax: Any) -> None:
    """Wait for all that was handed to devices."""
    begun = perf_counter_ns()
    for array in jax.live_arrays():
        if not array.is_deleted():
            array.block_until_ready()
    ov.span("wait", begun, perf_counter_ns(), what="all steps that were handed to JAX")


def instrument_updates(ov: Any) -> None:
    for where in ("/optax._src.update/apply_updates", "/equinox._update/apply_updates"):
        ov.region(where, "optimizer", when=lambda updates: Calls.updates(updates), outermost=True)


def instrument_compiled(ov: Any) -> None:
    from jax._src import core

    Calls.is_outermost = getattr(core, "trace_state_clean", Calls.is_outermost)
    for name in ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped"):
        ov.after_import(
            "flax.nnx.transforms.compilation",
            lambda module, name=name: watch(ov, getattr(module, name, None)),
        )
    ov.region(
        "/equinox._jit/_call",
        "compiled",
        when=lambda jit_wrapper, is_lower: not is_lower and Calls.begin(jit_wrapper),
        phase=lambda jit_wrapper, result: Calls.end(jit_wrapper),
        what=lambda jit_wrapper: name_of(jit_wrapper),
        items=lambda args: items_of(args),
        outermost=True,
    )


def watch(ov: Any, jitted: Any) -> None:
    """Record the calls of what `flax.nnx.jit` makes."""
    if jitted is not None:
        ov.region(
            jitted.__call__,
            "compiled",
            when=lambda self: Calls.begin(self),
            phase=lambda self, result: Calls.end(self),
            what=lambda self: name_of(self),
            items=lambda args: items_of(args),
            outermost=True,
        )


class Calls:
    """Which of the functions that are called train: parameters are updated while they are traced."""

    is_outermost: Any = staticmethod(lambda: True)
    """Whether nothing is traced."""
    current: Any = None
    train: dict[int, Any] = {}  # noqa: RUF012
    """By their identity, the functions that do; they are kept, so that it stays theirs."""

    @classmethod
    def begin(cls, function: Any) -> bool:
        if not cls.is_outermost():
            return False  # it is traced as a part of another
        cls.current = function
        return True

    @classmethod
    def end(cls, function: Any) -> str | None:
        cls.current = None
        return "train" if id(function) in cls.train else None

    @classmethod
    def updates(cls, tree: Any) -> bool:
        """Whether parameters are updated now; otherwise the function that is traced will do it each time."""
        if not is_traced(tree):
            return True
        if cls.current is not None:
            cls.train[id(cls.current)] = cls.current
        return False


def name_of(jitted: Any) -> str | None:
    return getattr(jitted, "__name__", None)


def items_of(args: Any) -> int:
    """The first dimension that the arrays of a batch have in common; 0 where no argument is one.

    A batch is an array beside others, or a tuple, list or map of nothing but arrays.
    """
    arrays = [each for each in args if is_array(each)]
    batches = [each for each in (plain(each) for each in args) if each]
    for batch in [arrays, *batches] if arrays else batches:
        sizes = {int(each.shape[0]) for each in batch}
        if len(sizes) == 1:
            return sizes.pop()
    return 0


def plain(value: Any) -> list[Any]:
    """The arrays of a plain tuple, list or map of such; nothing of anything else."""
    parts = list(value.values()) if type(value) is dict else value
    return list(parts) if type(parts) in (tuple, list) and all(map(is_array, parts)) else []


def is_array(value: Any) -> bool:
    return (
        bool(getattr(value, "shape", ())) and hasattr(value, "dtype") and hasattr(value, "nbytes")
    )


def host_bytes(tree: Any) -> int:
    """Bytes of the leaves that are no arrays of JAX, on a device already or traced."""
    import jax

    leaves = jax.tree_util.tree_leaves(tree)
    return sum(getattr(leaf, "nbytes", 0) for leaf in leaves if not isinstance(leaf, jax.Array))


def is_traced(tree: Any) -> bool:
    """Whether this is a part of a function that is being compiled: it happens once, not each step."""
    import jax

    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(tree))

"""JAX: tracing, compiling, copies to the device, and where the program waits for it.

A call of a jitted function runs no Python, and nothing can be put in its place without being seen by the
program: it is not recorded. Steps are known where optax updates parameters outside of jit; otherwise
`ov.step` of a voirfile names the function that makes one. `x.block_until_ready()` is written in C and not
recorded, `jax.block_until_ready(x)` is.
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


def instrument_optax(ov: Any) -> None:
    ov.region(
        "/optax._src.update/apply_updates",
        "optimizer",
        when=lambda updates: not is_traced(updates),
        outermost=True,
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

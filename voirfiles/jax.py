"""JAX: calls of what it compiled, tracing, compiling, copies to the device, where the program waits for it.

A call of a function that the program gave to `jax.jit`, `flax.nnx.jit` or `equinox.filter_jit` is `compiled`.
It is an update of the training where that is sure (injector/voirfiles/_jitted.py); steps are known there, and
where optax updates parameters outside of jit. A call that only predicts is `forward`.

A call returns before the device is done, on a CPU as well: what it takes shows as `sync`, where the program
waits for a value or reads one.
"""

from __future__ import annotations

from functools import partial
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
OPTIMIZERS = "adagrad adam adamax momentum nesterov rmsprop rmsprop_momentum sgd sm3"
"""Those of `jax.example_libraries`."""


KNOWN = ("equinox.", "flax.nnx.", "keras.")
"""Libraries of which calls of what they compile are known otherwise."""


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
    ov.region("/jax._src.api/block_until_ready", "sync", outermost=True)
    ov.region(  # float(loss), print(loss)
        "/jax._src.array/ArrayImpl/_value",
        "sync",
        when=lambda self: self._npy_value is None,
        outermost=True,
    )

    wait = ov.calls(
        "jax.Array.block_until_ready",
        "sync",
        began=lambda method, args: not args[0].is_ready(),
        ended=lambda method, result: None,
    )
    read = ov.calls(  # loss.item(), numpy.asarray(loss): NumPy reads an array of the host's in C
        "jax.Array",
        "sync",
        began=lambda array, _: not (array.is_deleted() or array.is_ready()),
        ended=lambda array, result: None,
    )

    def loaded(module: Any) -> None:
        wait(vars(module.ArrayImpl)["block_until_ready"])
        read(module.ArrayImpl)

    ov.after_import("jax._src.array", loaded)


def instrument_end(ov: Any) -> None:
    ov.after_import("jax", lambda jax: ov.synchronize(lambda: wait_for_all(ov, jax)))


def wait_for_all(ov: Any, jax: Any) -> None:
    """Wait for all that was handed to devices."""
    begun = perf_counter_ns()
    for array in jax.live_arrays():
        if not array.is_deleted():
            array.block_until_ready()
    ov.span("sync", begun, perf_counter_ns(), what="all steps that were handed to JAX")


def instrument_updates(ov: Any) -> None:
    from injector.voirfiles._jitted import (
        GRADIENTS,
        UPDATE,
        begin,
        eager,
        end,
        follow,
        items,
        known,
        note,
        updated,
    )

    own = [f"/jax.example_libraries.optimizers/{name}/update" for name in OPTIMIZERS.split()]
    for where in ("/optax._src.update/apply_updates", "/equinox._update/apply_updates", *own):
        ov.region(where, "optimizer", when=lambda: note(UPDATE), outermost=True)
        ov.override(f"{where} > #value", updated)
    ov.value(
        "/jax._src.tree_util/tree_map",
        "follows",
        get=lambda tree, rest, result: follow((tree, rest), result),
    )
    ov.region("/jax._src.api/vjp", "gradients", when=lambda: note(GRADIENTS) and False)
    ov.region(  # outside of compiled code, which calls a model in it
        "/jax._src.api/value_and_grad/value_and_grad_f",
        "gradients",
        when=lambda fun, args: note(GRADIENTS) and begin(eager(fun), args, ov.learn),
        of=lambda fun, result: end(eager(fun), result, ov.learn),
        what=lambda fun: known(eager(fun)).name,
        items=lambda fun, args: items(known(eager(fun)), args),
        outermost=True,
    )


def instrument_loops(ov: Any) -> None:
    """`jax.lax.scan`, `while_loop` and `fori_loop`, which are compiled code outside of any other as well."""
    from injector.voirfiles._jitted import end_loop, enter_loop, leave_loop, loop_name

    ov.override("/jax._src.lax.control_flow.loops/scan > #exit", leave_loop)
    ov.region(
        "/jax._src.lax.control_flow.loops/scan",
        "compiled",
        when=lambda f: enter_loop(f, ov.learn),
        of=lambda f, result: end_loop(f, result, ov.learn),
        what=lambda f: loop_name(f),
    )
    ov.override("/jax._src.lax.control_flow.loops/while_loop > #exit", leave_loop)
    ov.region(
        "/jax._src.lax.control_flow.loops/while_loop",
        "compiled",
        when=lambda body_fun: enter_loop(body_fun, ov.learn),
        of=lambda body_fun, result: end_loop(body_fun, result, ov.learn),
        what=lambda body_fun: loop_name(body_fun),
    )


def instrument_compiled(ov: Any) -> None:
    from injector.voirfiles._jitted import known

    attach = calls_of(ov, "jax.jit")

    def made(compiled: Any) -> Any:
        function = getattr(compiled, "__wrapped__", None)
        if function is not None and is_programs(function) and attach(compiled):
            known(compiled, function)
        return compiled

    ov.override("/jax._src.pjit/_cpp_pjit > #value", made)


def instrument_ahead(ov: Any) -> None:
    """``jax.jit(f).lower(…).compile()``: what is traced is known of ``f``, and of what comes of it."""
    from injector.voirfiles._jitted import begin, end, items, known, trace, traced

    def loaded(module: Any) -> None:
        if not hasattr(module, "jit_trace"):  # an older JAX
            return
        where = "/jax._src.pjit/jit_trace"
        ov.override(f"{where} > jit_func", trace)
        ov.value(where, "traced", get=lambda jit_func, result: traced(jit_func, result))
        for name in ("Traced/lower", "Lowered/compile"):
            where = f"/jax._src.stages/{name}"
            ov.value(where, "made", get=lambda self, result: traced(self, result))
        ov.region(
            "/jax._src.stages/Compiled/__call__",
            "compiled",
            when=lambda self, args, kwargs: begin(self, (*args, *kwargs.values()), ov.learn),
            of=lambda self, result: end(self, result, ov.learn),
            what=lambda self: known(self).name,
            items=lambda self, args, kwargs: items(known(self), (*args, *kwargs.values())),
            outermost=True,
        )

    ov.after_import("jax._src.pjit", loaded)


def calls_of(ov: Any, maker: str) -> Any:
    """What has the calls recorded of an object that ``maker`` made, which is written in C."""
    from injector.voirfiles._jitted import begin, end, items, known

    return ov.calls(
        f"calls of {maker}",
        "compiled",
        began=lambda thing, args: begin(thing, args, ov.learn),
        ended=lambda thing, result: end(thing, result, ov.learn),
        of=lambda self: known(self),
        what=lambda self: known(self).name,
        items=lambda self, args: items(known(self), args),
    )


def instrument_maps(ov: Any) -> None:
    """`jax.pmap`: the first dimension of what it is called with is that of devices."""
    from injector.voirfiles._jitted import begin, end, items, known

    def in_c(module: Any) -> None:
        attach = calls_of(ov, "jax.pmap")

        def made(mapped: Any) -> Any:
            if attach(mapped):
                known(mapped, mapped.__wrapped__).axes = 2
            return mapped

        if hasattr(module, "_cpp_pmap"):
            ov.override("/jax._src.api/_cpp_pmap > #value", made)

    def in_python(module: Any) -> None:
        def made(mapped: Any) -> Any:
            inner = dict(zip(mapped.__code__.co_freevars, mapped.__closure__, strict=True))
            known(inner["infer_params"].cell_contents, mapped.__wrapped__).axes = 2
            return mapped

        ov.override("/jax._src.pmap/pmap > #value", made)
        ov.region(
            "/jax._src.pmap/pmap/wrapped",
            "compiled",
            when=lambda infer_params, args: begin(infer_params, args, ov.learn),
            of=lambda infer_params, result: end(infer_params, result, ov.learn),
            what=lambda infer_params: known(infer_params).name,
            items=lambda infer_params, args: items(known(infer_params), args),
            outermost=True,
        )

    ov.after_import("jax._src.api", in_c)
    ov.after_import("jax._src.pmap", in_python)


def instrument_libraries(ov: Any) -> None:
    """What `flax.nnx.jit` and `equinox.filter_jit` make is in Python."""
    from injector.voirfiles._jitted import begin, end, items, known

    nnx = "flax.nnx.transforms.compilation"
    for name in ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped"):

        def loaded(module: Any, name: str = name) -> None:
            if hasattr(module, name):
                ov.region(
                    f"/{nnx}/{name}/__call__",
                    "compiled",
                    when=lambda self, args: begin(self, args, ov.learn, changes=True),
                    of=lambda self, result: end(self, result, ov.learn),
                    what=lambda self: known(self).name,
                    items=lambda self, args: items(known(self), args),
                    outermost=True,
                )

        ov.after_import(nnx, loaded)
    ov.region(
        "/equinox._jit/_call",
        "compiled",
        when=lambda jit_wrapper, is_lower, args: (
            not is_lower and begin(jit_wrapper, args, ov.learn)
        ),
        of=lambda jit_wrapper, result: end(jit_wrapper, result, ov.learn),
        what=lambda jit_wrapper: known(jit_wrapper).name,
        items=lambda jit_wrapper, args: items(known(jit_wrapper), args),
        outermost=True,
    )


def is_programs(function: Any) -> bool:
    """Whether a library has not made ``function`` for itself: JAX, or one whose calls are known otherwise."""
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    made = getattr(function, "__globals__", {}).get("__name__") or type(function).__module__
    return module.partition(".")[0] != "jax" and not made.startswith(KNOWN)


def host_bytes(tree: Any) -> int:
    """Bytes of the leaves that are no arrays of JAX, on a device already or traced."""
    import jax

    leaves = jax.tree_util.tree_leaves(tree)
    return sum(getattr(leaf, "nbytes", 0) for leaf in leaves if not isinstance(leaf, jax.Array))

"""JAX: calls of what it compiled, tracing, compiling, copies to the device, where the program waits for it.

A call of a function that the program passed to `jax.jit`, `flax.nnx.jit` or `equinox.filter_jit` is
`compiled`. Where it is sure to be an update of the training (injector/voirfiles/_jitted.py), it makes a step,
as does an update by optax outside of jit. A call that only predicts is `forward`.

A call returns before the device has finished, on a CPU as well: the rest of its time shows as `sync`, where
the program waits for a value or reads one.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import Any

import jax

from injector.voirfiles._jitted import GRADIENTS, UPDATE
from injector.voirfiles._jitted_calls import (
    begin_call,
    begin_trace,
    eager_code,
    end_call,
    end_loop,
    end_trace,
    enter_loop,
    follow_eager,
    items_of_call,
    jitted_of,
    learn_from_update,
    leave_loop,
    loop_name,
    mark_updated,
    note_effect,
)

LIBRARY = "jax"
TESTED = ("0.4.26", "0.10.2")

TIMED = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
"""Durations that JAX measures itself, and the regions that they are recorded as."""
OPTIMIZERS = "adagrad adam adamax momentum nesterov rmsprop rmsprop_momentum sgd sm3"
"""Optimizers of `jax.example_libraries`."""
LIBRARIES = ("equinox.", "flax.nnx.", "keras.")
"""Libraries whose compiled functions are recorded by other probes."""


def instrument_compile(ov: Any) -> None:
    """``trace``, ``lower`` and ``compile``: the stages of compiling a function."""

    def listen(_: Any) -> None:
        jax.monitoring.register_event_duration_secs_listener(ended)

    def ended(event: str, duration: float, **about: Any) -> None:
        name = TIMED.get(event)
        if name is not None:
            end = perf_counter_ns()
            what = about.get("fun_name")
            ov.span(name, end - int(duration * 1e9), end, what=what and str(what))

    ov.after_import("jax.monitoring", listen)


def instrument_copies(ov: Any) -> None:
    """``h2d``: `jax.device_put` of what is not on a device yet."""
    ov.region(
        "/jax._src.api/device_put",
        "h2d",
        when=lambda x: host_bytes(x) > 0,
        nbytes=host_bytes,
        outermost=True,
    )


def instrument_waiting(ov: Any) -> None:
    """``sync``: the program waits for a value, or reads one that has not been computed yet."""
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
    read = ov.calls(  # loss.item(), numpy.asarray(loss): NumPy reads an array on the host in C
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
    """``sync``: at the program's end, the wait for what devices still compute."""
    ov.synchronize(lambda: wait_for_all(ov))


def wait_for_all(ov: Any) -> None:
    """Wait for all work that was handed to devices, and record that."""
    begun = perf_counter_ns()
    for array in jax.live_arrays():
        if not array.is_deleted():
            array.block_until_ready()
    ov.span("sync", begun, perf_counter_ns(), what="all steps that were handed to JAX")


def instrument_updates(ov: Any) -> None:
    """``optimizer`` and ``gradients``: updates and gradients outside of compiled code; ``accumulate``."""
    examples = [f"/jax.example_libraries.optimizers/{name}/update" for name in OPTIMIZERS.split()]
    for where in ("/optax._src.update/apply_updates", "/equinox._update/apply_updates", *examples):
        ov.region(where, "optimizer", when=lambda: note_effect(UPDATE), outermost=True)
        if where not in examples:
            ov.override(f"{where} > updates", lambda updates: learn_from_update(updates, ov.learn))
        ov.override(f"{where} > #value", mark_updated)
    # Also while it is traced: then each call of the compiled code accumulates, or updates now and then.
    accumulation = "optax.transforms._accumulation"
    where = f"/{accumulation}/MultiSteps/update"
    ov.after_import(accumulation, lambda _: ov.region(where, "accumulate", what="optax.MultiSteps"))
    ov.value(
        "/jax._src.tree_util/tree_map",
        "follows",
        get=lambda tree, rest, result: follow_eager((tree, rest), result),
    )
    ov.region("/jax._src.api/vjp", "gradients", when=lambda: note_effect(GRADIENTS) and False)
    ov.region(  # outside of compiled code, which calls a model in it
        "/jax._src.api/value_and_grad/value_and_grad_f",
        "gradients",
        when=lambda fun, args: (
            note_effect(GRADIENTS) and begin_call(eager_code(fun), args, ov.learn)
        ),
        of=lambda fun, result: end_call(eager_code(fun), result, ov.learn),
        what=lambda fun: jitted_of(eager_code(fun)).name,
        items=lambda fun, args: items_of_call(eager_code(fun), args),
        outermost=True,
    )


def instrument_loops(ov: Any) -> None:
    """``compiled``: `jax.lax.scan`, `while_loop` and `fori_loop`, which compile their body themselves."""
    ov.override("/jax._src.lax.control_flow.loops/scan > #exit", leave_loop)
    ov.region(
        "/jax._src.lax.control_flow.loops/scan",
        "compiled",
        when=lambda f, init, xs: enter_loop(f, ov.learn, init, xs),
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
    """``compiled``: calls of what `jax.jit` made for the program."""
    attach = calls_of(ov, "jax.jit")

    def made(compiled: Any) -> Any:
        function = getattr(compiled, "__wrapped__", None)
        if function is not None and is_of_program(function) and attach(compiled):
            jitted_of(compiled, function)
        return compiled

    ov.override("/jax._src.pjit/_cpp_pjit > #value", made)


def instrument_ahead(ov: Any) -> None:
    """``compiled``: calls of ``jax.jit(f).lower(…).compile()``; tracing ``f`` tells what they do."""

    def loaded(module: Any) -> None:
        if not hasattr(module, "jit_trace"):  # an older JAX
            return
        where = "/jax._src.pjit/jit_trace"
        ov.override(f"{where} > jit_func", begin_trace)
        ov.value(where, "traced", get=lambda jit_func, result: end_trace(jit_func, result))
        for name in ("Traced/lower", "Lowered/compile"):
            where = f"/jax._src.stages/{name}"
            ov.value(where, "made", get=lambda self, result: end_trace(self, result))
        ov.region(
            "/jax._src.stages/Compiled/__call__",
            "compiled",
            when=lambda self, args, kwargs: begin_call(self, (*args, *kwargs.values()), ov.learn),
            of=lambda self, result: end_call(self, result, ov.learn),
            what=lambda self: jitted_of(self).name,
            items=lambda self, args, kwargs: items_of_call(self, (*args, *kwargs.values())),
            outermost=True,
        )

    ov.after_import("jax._src.pjit", loaded)


def calls_of(ov: Any, maker: str) -> Any:
    """A function that has the calls of an object recorded which ``maker`` made, and which is written in C."""
    return ov.calls(
        f"calls of {maker}",
        "compiled",
        began=lambda thing, args: begin_call(thing, args, ov.learn),
        ended=lambda thing, result: end_call(thing, result, ov.learn),
        of=lambda self: jitted_of(self),
        what=lambda self: jitted_of(self).name,
        items=lambda self, args: items_of_call(self, args),
    )


def instrument_maps(ov: Any) -> None:
    """``compiled``: calls of `jax.pmap`. The first dimension of its arguments is that of devices."""

    def in_c(module: Any) -> None:
        attach = calls_of(ov, "jax.pmap")

        def made(mapped: Any) -> Any:
            if attach(mapped):
                jitted_of(mapped, mapped.__wrapped__).batch_axes = 2
            return mapped

        if hasattr(module, "_cpp_pmap"):
            ov.override("/jax._src.api/_cpp_pmap > #value", made)

    def in_python(module: Any) -> None:
        def made(mapped: Any) -> Any:
            inner = dict(zip(mapped.__code__.co_freevars, mapped.__closure__, strict=True))
            jitted_of(inner["infer_params"].cell_contents, mapped.__wrapped__).batch_axes = 2
            return mapped

        ov.override("/jax._src.pmap/pmap > #value", made)
        ov.region(
            "/jax._src.pmap/pmap/wrapped",
            "compiled",
            when=lambda infer_params, args: begin_call(infer_params, args, ov.learn),
            of=lambda infer_params, result: end_call(infer_params, result, ov.learn),
            what=lambda infer_params: jitted_of(infer_params).name,
            items=lambda infer_params, args: items_of_call(infer_params, args),
            outermost=True,
        )

    ov.after_import("jax._src.api", in_c)
    ov.after_import("jax._src.pmap", in_python)


def instrument_libraries(ov: Any) -> None:
    """``compiled``: calls of what `flax.nnx.jit` and `equinox.filter_jit` made, which is in Python."""
    nnx = "flax.nnx.transforms.compilation"
    for name in ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped"):

        def loaded(module: Any, name: str = name) -> None:
            if hasattr(module, name):
                ov.region(
                    f"/{nnx}/{name}/__call__",
                    "compiled",
                    when=lambda self, args: begin_call(self, args, ov.learn, changes=True),
                    of=lambda self, result: end_call(self, result, ov.learn),
                    what=lambda self: jitted_of(self).name,
                    items=lambda self, args: items_of_call(self, args),
                    outermost=True,
                )

        ov.after_import(nnx, loaded)
    ov.region(
        "/equinox._jit/_call",
        "compiled",
        when=lambda jit_wrapper, is_lower, args: (
            not is_lower and begin_call(jit_wrapper, args, ov.learn)
        ),
        of=lambda jit_wrapper, result: end_call(jit_wrapper, result, ov.learn),
        what=lambda jit_wrapper: jitted_of(jit_wrapper).name,
        items=lambda jit_wrapper, args: items_of_call(jit_wrapper, args),
        outermost=True,
    )


def is_of_program(function: Any) -> bool:
    """Whether the program, or a library without a probe of its own, compiles ``function``; not JAX itself."""
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    defined_in = getattr(function, "__globals__", {}).get("__name__") or type(function).__module__
    return module.partition(".")[0] != "jax" and not defined_in.startswith(LIBRARIES)


def host_bytes(x: Any) -> int:
    """The bytes of the leaves of ``x`` that are no arrays of JAX: these are on a device, or traced."""
    leaves = jax.tree_util.tree_leaves(x)
    return sum(getattr(leaf, "nbytes", 0) for leaf in leaves if not isinstance(leaf, jax.Array))

"""What can be asked of a function that JAX compiled, and what its calls do: printed."""

import functools
import gc
import inspect
import pickle
import sys
import traceback
import weakref

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("no jax here")

traces = []


@jax.jit
def scaled(x, y=1, *, z=0):
    """Its text."""
    traces.append(1)
    return x * y + z


class Holder:
    @functools.partial(jax.jit, static_argnums=0)
    def one_more(self, x):
        return x + 1


def tried(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as error:
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)
        return type(error), str(error)[:80], [frame.name for frame in where]


x = jnp.ones(3)
print(type(scaled), scaled.__name__, scaled.__doc__, scaled.__module__, sorted(vars(scaled)))
print(inspect.signature(scaled), callable(scaled), isinstance(scaled, type(jax.jit(abs))))
for _ in range(3):
    scaled(x), scaled(x, y=2.0, z=x)
print(scaled(jnp.ones(4)), len(traces), scaled._cache_size())
print(scaled.lower(x).compile()(x), scaled.eval_shape(x))
print(tried(scaled, x, q=1), tried(scaled, x, jnp.ones(4)))
print(type(tried(pickle.dumps, scaled)))
given, kept = jnp.ones(5), jnp.ones(5)
added = jax.jit(lambda a, b: a + b, donate_argnums=0)
print(added(given, kept), given.is_deleted(), kept.is_deleted(), sys.getrefcount(kept))
print(jax.grad(lambda x: scaled(x).sum())(x), jax.vmap(scaled)(jnp.ones((2, 3))))
print(jax.make_jaxpr(scaled)(x))
scaled.clear_cache()
print(scaled(x), len(traces))
print(type(Holder().one_more), Holder().one_more(x))
seen = weakref.ref(added)
del added
gc.collect()
print(seen())
with jax.disable_jit():
    print(scaled(x))
with jax.checking_leaks():
    print(jax.jit(lambda x: x * 3)(x))

"""JAX by its libraries of modules: steps that flax.nnx and equinox compile, each library a part."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import injector

rng = np.random.default_rng(0)
x = rng.normal(size=(42, 8)).astype(np.float32)
y = x.sum(1, keepdims=True)


def batches():
    return [(x[at : at + 8], y[at : at + 8]) for at in range(0, 42, 8)]


def flax():
    from flax import nnx

    model = nnx.Linear(8, 1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.01), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, batch):
        loss = lambda model: ((model(batch[0]) - batch[1]) ** 2).mean()
        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return value

    @nnx.jit
    def check(model, x):
        return model(x)

    for batch in batches():
        print(float(step(model, optimizer, batch)) > 0)
    check(model, x)
    check(model, x)
    # Another object with the same arrays, as for an evaluation in another mode.
    look = nnx.jit(lambda model, x: model(x).sum())
    for _ in range(2):
        look(nnx.merge(*nnx.split(model)), x)


def equinox():
    import equinox as eqx

    model = eqx.nn.MLP(8, 1, 4, 1, key=jax.random.key(0))
    optimizer = optax.adam(0.01)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, x, y):
        loss = lambda model: jnp.mean((jax.vmap(model)(x) - y) ** 2)
        value, gradients = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradients, state)
        return value, eqx.apply_updates(model, updates), state

    for batch in batches():
        value, model, state = step(model, state, *batch)
    print(float(value) > 0)


for part in (flax, equinox):
    if part.__name__ in sys.argv:
        with injector.region(f"part/{part.__name__}"):
            part()

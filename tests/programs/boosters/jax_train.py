"""JAX: a jitted step, the same by hand with optax outside of jit, a shape that compiles anew."""

import sys

import jax
import jax.numpy as jnp
import numpy as np


def data(rows):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 8)).astype(np.float32)
    return x, x.sum(1)


def loss_of(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)


def jitted():
    import optax

    optimizer = optax.adam(1e-2)

    @jax.jit
    def step(weights, state, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
        updates, state = optimizer.update(gradient, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    weights = jnp.zeros(8)
    state = optimizer.init(weights)
    x, y = jax.device_put(data(64))
    for _ in range(5):
        weights, state, loss = step(weights, state, x, y)
        loss = jax.block_until_ready(loss)
    return float(loss) > 0


def by_hand():
    import optax

    optimizer = optax.sgd(1e-2)
    gradient_of = jax.jit(jax.grad(loss_of))
    weights = jnp.zeros(8)
    state = optimizer.init(weights)
    x, y = data(64)
    for _ in range(5):
        batch = jax.device_put((x, y))
        updates, state = optimizer.update(gradient_of(weights, *batch), state, weights)
        weights = optax.apply_updates(weights, updates)
    return weights.shape


def waits():
    """In all ways that wait for a value which is being computed."""

    @jax.jit
    def slow(x):
        return jax.lax.fori_loop(0, 400, lambda _, x: jnp.tanh(x @ x), x).sum()

    x = jnp.ones((300, 300))
    slow(x).block_until_ready()
    jax.block_until_ready(slow(x))
    float(slow(x))
    slow(x).item()
    np.asarray(slow(x))
    done = slow(x)
    for _ in range(3):
        done.block_until_ready()
    return type(done.block_until_ready())


def shapes():
    @jax.jit
    def double(x):
        return x * 2

    return [double(np.ones(n, np.float32)).shape[0] for n in (3, 4, 4, 5)]


def functions():
    def double(x):
        return x * 2

    def halve(x):
        return x / 2

    return [jax.jit(function)(np.ones(3, np.float32)).shape[0] for function in (double, halve)]


print(globals()[sys.argv[1]]())

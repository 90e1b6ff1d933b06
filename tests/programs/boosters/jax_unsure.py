"""JAX: calls of compiled functions that are no step of a training, or of which nobody can be sure."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import injector

rng = np.random.default_rng(0)
CALLS = 8


def simulation():
    """It follows the gradients of an energy."""
    energy = lambda x: jnp.sum(x**4)
    step = jax.jit(lambda x, v: (x + 0.01 * v, v - 0.01 * jax.grad(energy)(x)))
    x, v = jnp.ones(16), jnp.zeros(16)
    for _ in range(CALLS):
        x, v = step(x, v)


def sampling():
    """Langevin dynamics: a new key each time."""
    step = jax.jit(lambda x, key: x - jax.grad(lambda x: jnp.sum(x**2))(x) + jax.random.normal(key, x.shape))
    x, keys = jnp.ones(16), jax.random.split(jax.random.PRNGKey(0), CALLS)
    for key in np.asarray(keys):
        x = step(x, key)


def attack():
    """The same data each time, which is changed."""
    weights = {"w": jnp.ones((4, 2))}
    step = jax.jit(lambda weights, x: x + 0.1 * jax.grad(lambda x: jnp.sum(x @ weights["w"]))(x))
    x = jnp.ones((3, 4))
    for _ in range(CALLS):
        x = step(weights, x)


def repeated_attack():
    """Several steps away from new data each time, by the same weights."""
    weights = {"w": jnp.ones((4, 2))}
    move = lambda weights, x: x + 0.1 * jax.grad(lambda x: jnp.sum((x @ weights["w"]) ** 2))(x)
    attack = jax.jit(
        lambda weights, x: jax.lax.fori_loop(0, 3, lambda _, x: move(weights, x), x)
    )
    for _ in range(CALLS):
        attack(weights, rng.normal(size=(3, 4)).astype(np.float32))


def decoding():
    weights = {"w": jnp.ones((4, 4))}
    step = jax.jit(lambda weights, token, state: (token + 1, state @ weights["w"]))
    token, state = jnp.zeros(3, int), jnp.ones((3, 4))
    for _ in range(CALLS):
        token, state = step(weights, token, state)


def saliency():
    """Gradients that nothing follows."""
    weights = {"w": jnp.ones((4, 2))}
    step = jax.jit(jax.grad(lambda x, weights: jnp.sum(x @ weights["w"])))
    for _ in range(CALLS):
        step(rng.normal(size=(3, 4)).astype(np.float32), weights)


def looped():
    """One call makes many updates."""

    def body(w, batch):
        return w - 0.1 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w), None

    step = jax.jit(lambda w, batches: jax.lax.scan(body, w, batches))
    w = jnp.zeros(4)
    for _ in range(CALLS):
        w, _ = step(w, rng.normal(size=(5, 8, 4)).astype(np.float32))


def loops():
    """Outside of any compiled function: of a training, of none, of one that fails."""

    def train(w, batch):
        return w - 0.1 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w), None

    def halve(_, x):
        return x / 2

    def fail(x, _):
        raise ValueError

    w = jnp.ones(4)
    for _ in range(2):
        w, _ = jax.lax.scan(train, w, rng.normal(size=(5, 8, 4)).astype(np.float32))
        jax.lax.fori_loop(0, 3, halve, w)
        jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: halve(0, x), w)
        try:
            jax.lax.scan(fail, w, w)
        except ValueError:
            pass


def scaled():
    """No weights: an array beside another."""
    step = jax.jit(lambda x, mean: x - mean)
    mean = jnp.ones(4)
    for _ in range(CALLS):
        step(rng.normal(size=(3, 4)).astype(np.float32), mean)


def failing():
    step = jax.jit(lambda x, y: x + y)
    for _ in range(CALLS):
        try:
            step(np.ones(2), np.ones(3))
        except TypeError:
            pass


def predicting():
    weights = {"w": jnp.ones((4, 2))}
    step = jax.jit(lambda weights, x: x @ weights["w"])
    for _ in range(CALLS):
        step(weights, rng.normal(size=(3, 4)).astype(np.float32))


def measuring():
    """Metrics are handed on from batch to batch of an evaluation."""
    weights, metrics = {"w": jnp.ones((4, 2))}, {"total": jnp.zeros(()), "count": jnp.zeros(())}

    def measured(weights, metrics, x):
        total = metrics["total"] + jnp.sum(x @ weights["w"])
        return {"total": total, "count": metrics["count"] + len(x)}

    step = jax.jit(measured)
    for _ in range(CALLS):
        metrics = step(weights, metrics, rng.normal(size=(3, 4)).astype(np.float32))


def moving():
    """What is handed on is a table: the state of a simulation with constants."""
    constants, state = {"w": jnp.ones((4, 4))}, jnp.ones((3, 4))
    step = jax.jit(lambda constants, state, force: state @ constants["w"] + force)
    for _ in range(CALLS):
        state = step(constants, state, rng.normal(size=(3, 4)).astype(np.float32))


def recurrent():
    """A model with a loop in it, whose gradients are derived around that."""

    def loss(w, x):
        return jnp.sum(jax.lax.scan(lambda h, each: (jnp.tanh(h * w + each), None), x[0], x)[0])

    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x))
    w = jnp.ones(())
    for _ in range(CALLS):
        w = step(w, rng.normal(size=(5, 3)).astype(np.float32))


for part in sys.argv[1:]:
    with injector.region(f"part/{part}"):
        globals()[part]()

"""JAX: updates outside of the function that derives the gradients, and what only looks like it."""

import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import injector

rng = np.random.default_rng(0)
STEPS, SIZE = 10, 8


def data(batches=STEPS):
    for _ in range(batches):
        x = rng.normal(size=(SIZE, 4)).astype(np.float32)
        yield x, x.sum(1)


def start():
    return {"w": jnp.zeros(4), "b": jnp.zeros(())}


def loss(weights, x, y):
    return jnp.mean((x @ weights["w"] + weights["b"] - y) ** 2)


def descend(weights, gradients):
    return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, weights, gradients)


def functions(derived=loss):
    """One that derives gradients, one that updates with them, neither called before."""
    return jax.jit(jax.value_and_grad(derived)), jax.jit(lambda p, g: descend(p, g))


def clipped():
    """A third function in between."""
    derive, update = functions()
    clip = jax.jit(lambda g: jax.tree_util.tree_map(lambda g: jnp.clip(g, -1, 1), g))
    weights = start()
    for x, y in data():
        weights = update(weights, clip(derive(weights, x, y)[1]))


def accumulated():
    """Gradients of four batches for each update, added up outside of compiled code."""
    (derive, update), weights, total = functions(), start(), None
    for number, (x, y) in enumerate(data(4 * STEPS)):
        _, found = derive(weights, x, y)
        total = found if total is None else jax.tree_util.tree_map(jnp.add, total, found)
        if number % 4 == 3:
            weights, total = update(weights, total), None


def statistics():
    """What is beside the gradients is given back to the function that derives them."""

    def running(weights, mean, x, y):
        return loss(weights, x, y), 0.9 * mean + x.mean(0)

    derive, update = jax.jit(jax.value_and_grad(running, has_aux=True)), functions()[1]
    weights, mean = start(), jnp.zeros(4)
    for x, y in data():
        (_, mean), found = derive(weights, mean, x, y)
        weights = update(weights, found)


def evaluated():
    (derive, update), weights = functions(), start()
    evaluate = jax.jit(lambda weights, x, y: loss(weights, x, y))
    for x, y in data():
        weights = update(weights, derive(weights, x, y)[1])
        for x, y in data(2):
            float(evaluate(weights, x[:5], y[:5]))


def rivals():
    """Two models, each trained with the other's weights at hand."""
    first, update_first = functions(lambda p, q, x, y: loss(p, x, y) + q["b"])
    second, update_second = functions(lambda q, p, x, y: loss(q, x, y) + p["b"])
    p, q = start(), start()
    for x, y in data():
        p = update_first(p, first(p, q, x, y)[1])
        q = update_second(q, second(q, p, x, y)[1])


def interpreted():
    """Nothing is compiled."""
    weights = start()
    for x, y in data():
        weights = descend(weights, jax.grad(loss)(weights, x, y))


class Batch(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def recurrent(weights, x):
    """Its loop goes through the first dimension."""
    state, _ = jax.lax.scan(lambda h, x: (jnp.tanh(h + x * weights["w"]), None), x[0], x)
    return state.sum(-1)


def named():
    """A batch that is a named tuple."""
    step = jax.jit(lambda weights, batch: descend(weights, jax.grad(loss)(weights, *batch)))
    weights = start()
    for x, y in data():
        weights = step(weights, Batch(x, y))


def each(weights, x):
    """Its loop goes through the first dimension as well, and hands nothing on."""
    return jax.lax.map(lambda x: (x * weights["w"]).sum(-1), x)


def timed(times=20, model=recurrent):
    """Batches with the time first."""
    derive = jax.grad(lambda weights, x: jnp.mean(model(weights, x) ** 2))
    step = jax.jit(lambda weights, batch: descend(weights, derive(weights, batch["x"])))
    weights = start()
    for _ in range(STEPS):
        weights = step(weights, {"x": rng.normal(size=(times, SIZE, 4)).astype(np.float32)})


def timed_as_long():
    """As many times as items."""
    timed(SIZE)


def one_by_one():
    """It is not known what the first dimension counts."""
    timed(model=each)


def divided():
    """A loop of the compiled code adds up the gradients of as many parts as each has items."""

    def step(weights, batches):
        def add(total, batch):
            found = jax.grad(loss)(weights, *batch)
            return jax.tree_util.tree_map(jnp.add, total, found), None

        return optax.apply_updates(weights, jax.lax.scan(add, start(), batches)[0])

    weights, step = start(), jax.jit(step)
    for _ in range(STEPS):
        x = rng.normal(size=(SIZE, SIZE, 4)).astype(np.float32)
        weights = step(weights, (x, x.sum(-1)))


def pruned():
    """A mask that stays the same is no model, nor is what derives the updates a second update."""
    optimizer, weights = optax.adam(0.01), start()

    def derive(weights, state, x, y):
        return optimizer.update(jax.grad(loss)(weights, x, y), state)

    derive = jax.jit(derive)
    mask = jax.jit(lambda tree, masks: jax.tree_util.tree_map(jnp.multiply, tree, masks))
    masks, state = jax.tree_util.tree_map(jnp.ones_like, weights), optimizer.init(weights)
    for x, y in data():
        updates, state = derive(mask(weights, masks), state, x, y)
        weights = optax.apply_updates(weights, mask(updates, masks))


def two_stages():
    """The second model gets what the first one, whose weights follow from gradients, makes of the data."""
    (derive, update), weights, head = functions(), start(), {"v": jnp.ones(8)}
    encode = jax.jit(lambda weights, x: x @ weights["w"] + weights["b"])
    decode = jax.jit(lambda head, code: code * head["v"][0])
    for x, y in data():
        weights = update(weights, derive(weights, x, y)[1])
        for x, y in data(2):
            float(decode(head, encode(weights, x[:5])).sum())


class State(NamedTuple):
    weights: dict
    moments: tuple


def looked_at():
    """After each update, on data that are held and on new ones: the weights are other ones each time."""
    optimizer = optax.adam(0.01)

    @jax.jit
    def step(state, x, y):
        updates, moments = optimizer.update(jax.grad(loss)(state.weights, x, y), state.moments)
        return State(optax.apply_updates(state.weights, updates), moments)

    on_held = jax.jit(lambda weights, x, y: loss(weights, x, y))
    on_new = jax.jit(lambda state, batch: loss(state.weights, *batch))
    moved = jax.jit(lambda weights, x: {**weights, "w": weights["w"] + x.mean(0)})
    state, held = State(start(), optimizer.init(start())), next(data(1))
    for x, y in data():
        state = step(state, x, y)
        float(on_held(state.weights, *held))
        float(on_new(state, (x[:5], y[:5])))
        moved(state.weights, x)


class Statistics(NamedTuple):
    mean: jax.Array
    number: jax.Array


def beside_statistics():
    """An object that is returned beside the weights, and given back with them, is no second model."""
    optimizer = optax.sgd(0.01)

    @jax.jit
    def step(weights, seen, x, y):
        updates, _ = optimizer.update(jax.grad(loss)(weights, x, y), optimizer.init(weights))
        return optax.apply_updates(weights, updates), Statistics(seen.mean + x.mean(0), seen.number + 1)

    look = jax.jit(lambda weights, seen, x, y: loss(weights, x - seen.mean / seen.number, y))
    apart = jax.jit(lambda weights, seen, batch: (batch["x"] - seen["mean"]) @ weights["w"])
    weights, seen = start(), Statistics(jnp.zeros(4), jnp.zeros(()))
    held = next(data(1))
    for x, y in data():
        weights, seen = step(weights, seen, x, y)
        float(look(weights, seen, *held))
        apart(weights, {"mean": seen.mean}, {"x": x})


def by_optax():
    """Outside of compiled code."""
    optimizer, (derive, _), weights = optax.sgd(0.01), functions(), start()
    state = optimizer.init(weights)
    for x, y in data():
        updates, state = optimizer.update(derive(weights, x, y)[1], state, weights)
        weights = optax.apply_updates(weights, updates)


def by_many_steps():
    """An optimizer that accumulates gradients by itself, in compiled code."""
    optimizer, weights = optax.MultiSteps(optax.sgd(0.01), 4), start()
    state = optimizer.init(weights)

    @jax.jit
    def step(weights, state, x, y):
        error = lambda weights: jnp.mean((x @ weights["w"] + weights["b"] - y) ** 2)
        updates, state = optimizer.update(jax.grad(error)(weights), state, weights)
        return optax.apply_updates(weights, updates), state

    for x, y in data():
        weights, state = step(weights, state, x, y)


def forces():
    """A simulation."""
    force = jax.jit(jax.grad(lambda x: jnp.sum(x**4)))
    move = jax.jit(lambda x, v, f: (x + 0.01 * v, v - 0.01 * f))
    x, v = jnp.ones(16), jnp.zeros(16)
    for _ in range(STEPS):
        x, v = move(x, v, force(x))


def attack():
    """New data each time, which is changed along its gradients."""
    weights = start()
    derive = jax.jit(jax.grad(lambda x, weights: jnp.sum(x @ weights["w"])))
    change = jax.jit(lambda x, g: x + 0.1 * jnp.sign(g))
    predict = jax.jit(lambda weights, x: x @ weights["w"])
    for x, _ in data():
        predict(weights, change(x, derive(x, weights)))


for part in sys.argv[1:]:
    with injector.region(f"part/{part}"):
        globals()[part]()

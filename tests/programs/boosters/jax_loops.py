"""JAX: each way to compile a step that is named as an argument, by each kind of update, in each kind of loop;
trained alone, with evaluation in between, or with inference in its place.
"""

import functools
import itertools
import queue
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax

import injector

ROWS, SIZE, STEPS = 40, 8, 10
optimizer = optax.sgd(0.01)


def data():
    rng = np.random.default_rng(0)
    for _ in range(0, STEPS * SIZE, SIZE):
        x = rng.normal(size=(SIZE, 4)).astype(np.float32)
        yield x, x.sum(1)


def loss(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def by_hand(state, x, y):
    params, opt = state
    gradients = jax.grad(loss)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, gradients), opt


def by_optax(state, x, y):
    params, opt = state
    gradients = jax.grad(loss)(params, x, y)
    updates, opt = optimizer.update(gradients, opt, params)
    return optax.apply_updates(params, updates), opt


def by_nested_jit(state, x, y):
    """The gradients are compiled apart, and were traced before the step was."""
    params, opt = state
    gradients = GRADIENTS(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, gradients), opt


GRADIENTS = jax.jit(jax.grad(loss))


def derive(state, x, y):
    return jax.grad(loss)(state[0], x, y)


def descend(state, gradients):
    params, opt = state
    return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, gradients), opt


def apply(state, gradients):
    params, opt = state
    updates, opt = optimizer.update(gradients, opt, params)
    return optax.apply_updates(params, updates), opt


def method(update):
    class Trainer:
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, state, x, y):
            return update(state, x, y)

    return Trainer().step


def fresh(update):
    """A function that was not compiled before."""
    return lambda state, x, y: update(state, x, y)


def factory(update):
    @jax.jit
    def step(state, x, y):
        return update(state, x, y)

    return step


def keywords(update):
    step = jax.jit(fresh(update))
    return lambda state, x, y: step(state, y=y, x=x)


def ahead(update):
    """What is compiled anew of a function is not traced anew."""
    function = fresh(update)
    return lambda state, x, y: jax.jit(function)(state, x, y)


def keyed(update):
    """A batch that is a map, between weights and a key of random numbers."""
    step = jax.jit(lambda state, batch, key: update(state, **batch))
    keys = iter(np.asarray(jax.random.split(jax.random.PRNGKey(0), STEPS)))
    return lambda state, x, y: step(state, {"x": x, "y": y}, next(keys))


def mapped(update):
    """Over the only device."""
    step = jax.pmap(fresh(update))
    return lambda state, x, y: step(widened(state), x[None], y[None])


def widened(state):
    """With a dimension for devices."""
    if state[0]["b"].ndim:
        return state
    return jax.tree_util.tree_map(lambda leaf: leaf[None], state)


def compiled(update):
    """Ahead of time."""
    made = []

    def called(state, x, y):
        if not made:
            made.append(jax.jit(fresh(update)).lower(state, x, y).compile())
        return made[0](state, x, y)

    return called


def apart(way, update):
    """The gradients by a function of their own, compiled in this way, and the update by another."""
    gradients = WAYS["jit" if way == "donated" else way](derive)
    function = lambda state, gradients: update(state, gradients)
    updated = jax.jit(function, donate_argnums=(0, 1) if way == "donated" else ())
    if way == "mapped":
        updated = jax.jit(jax.vmap(function))
    made = []

    def called(state, x, y):
        derived = gradients(state, x, y)
        if way == "anew":
            return jax.jit(function)(state, derived)
        if way == "mapped":
            state = widened(state)
        if not made:
            ahead = way == "compiled"
            made.append(updated.lower(state, derived).compile() if ahead else updated)
        return made[0](state, derived)

    return called


def outside(way, update):
    """The same, the update not compiled."""
    gradients = WAYS["jit" if way == "donated" else way](derive)
    prepared = widened if way == "mapped" else lambda state: state
    return lambda state, x, y: update(prepared(state), gradients(state, x, y))


WAYS = {
    "jit": lambda update: jax.jit(fresh(update)),
    "donated": lambda update: jax.jit(fresh(update), donate_argnums=(0,)),
    "method": method,
    "factory": factory,
    "keywords": keywords,
    "anew": ahead,
    "keyed": keyed,
    "mapped": mapped,
    "compiled": compiled,
}
UPDATES = {
    "hand": lambda way: WAYS[way](by_hand),
    "optax": lambda way: WAYS[way](by_optax),
    "nested": lambda way: WAYS[way](by_nested_jit),
    "apart": lambda way: apart(way, descend),
    "apart_optax": lambda way: apart(way, apply),
    "outside": lambda way: outside(way, descend),
}


def measured(way):
    """Inference."""
    return WAYS["jit" if way == "donated" else way](lambda state, x, y: loss(state[0], x, y))


def trained(way, update):
    return UPDATES[update](way)


def evaluated(way, update):
    """Three batches after every five steps."""
    step, measure, number = UPDATES[update](way), measured(way), itertools.count(1)

    def called(state, x, y):
        state = step(state, x, y)
        if next(number) % 5 == 0:
            for x, y in itertools.islice(data(), 3):
                float(measure(state, x[:5], y[:5]).sum())
        return state

    return called


def inferred(way, update):
    measure = measured(way)

    def called(state, x, y):
        measure(state, x, y)
        return state

    return called


MODES = {"trained": trained, "evaluated": evaluated, "inferred": inferred}


def plain(step, state):
    for x, y in data():
        state = step(state, x, y)


def arrays(step, state):
    """Parts of arrays, on the device already."""
    x, y = (jnp.concatenate(each) for each in zip(*data(), strict=True))
    for at in range(0, STEPS * SIZE, SIZE):
        state = step(state, x[at : at + SIZE], y[at : at + SIZE])


class Ahead:
    """Batches that a thread makes ahead, as loaders for JAX do."""

    def __iter__(self):
        self.queue = queue.Queue(2)
        threading.Thread(target=self.work, daemon=True).start()
        return self

    def work(self):
        for batch in data():
            self.queue.put(jax.device_put(batch))
        self.queue.put(None)

    def __next__(self):
        batch = self.queue.get()
        if batch is None:
            raise StopIteration
        return {"x": batch[0], "y": batch[1]}


def threaded(step, state):
    for batch in Ahead():
        state = step(state, batch["x"], batch["y"])


def epochs(step, state):
    batches = list(data())
    for epoch in range(2):
        for at in range(STEPS // 2):
            state = step(state, *batches[epoch * (STEPS // 2) + at])


def drawn(step, state):
    batches, done = data(), 0
    while done < STEPS:
        state = step(state, *next(batches))
        done += 1


def held(step, state):
    class Holder:
        pass

    holder = Holder()
    holder.state = state
    for x, y in data():
        holder.state = step(holder.state, x, y)
        float(holder.state[0]["b"].sum())


def loader(step, state):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    x = torch.randn(STEPS * SIZE, 4)
    for x, y in DataLoader(TensorDataset(x, x.sum(1)), batch_size=SIZE):
        state = step(state, x.numpy(), y.numpy())


LOOPS = {
    "plain": plain,
    "arrays": arrays,
    "epochs": epochs,
    "drawn": drawn,
    "held": held,
    "threaded": threaded,
    "loader": loader,
}


def start(way):
    params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
    state = params, optimizer.init(params)
    return widened(state) if way == "mapped" else state


chosen = [words.split(",") for words in sys.argv[1:5]]
if "nested" in chosen[1] and chosen[3] != ["inferred"]:
    GRADIENTS(start("jit")[0], *next(data()))
for way, update, loop, mode in itertools.product(*chosen):
    called = MODES[mode](way, update)
    with injector.region(f"part/{way}-{update}-{loop}-{mode}"):
        LOOPS[loop](called, start(way))

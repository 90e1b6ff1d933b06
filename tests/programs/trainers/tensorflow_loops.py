"""Loops of TensorFlow, each a part: by hand, compiled, compiled as a whole, as TensorFlow 1 had them."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
import tensorflow as tf

import injector

rng = numpy.random.default_rng(0)
x = rng.normal(size=(42, 8)).astype("float32")
y = x.sum(1, keepdims=True)


def dataset():
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    model.build((None, 8))
    return model, tf.keras.optimizers.SGD(0.01)


def eager():
    model, optimizer = build()
    squares = tf.keras.losses.MeanSquaredError()
    for epoch in range(2):
        for batch, wanted in dataset():
            with tf.GradientTape() as tape:
                loss = squares(wanted, model(batch, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        for batch, wanted in dataset():
            model(batch)


def compiled():
    model, optimizer = build()

    @tf.function
    def step(batch, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch, training=True) - wanted) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def check(batch):
        return model(batch, training=False)

    batches = dataset()
    for epoch in range(2):
        for batch, wanted in batches:
            step(batch, wanted)
        for batch, _ in batches:
            check(batch)


def by_hand():
    weights = tf.Variable(tf.zeros((8, 1)))

    @tf.function
    def step(batch, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((batch @ weights - wanted) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))

    for batch, wanted in dataset():
        step(batch, wanted)
    for batch, wanted in dataset():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((batch @ weights - wanted) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))


def apart():
    """The update is a function of its own; another one adds up metrics of what the gradients came with."""
    weights, table = tf.Variable(tf.zeros((8, 1))), tf.Variable(tf.zeros(2))

    @tf.function
    def derive(batch, wanted):
        with tf.GradientTape() as tape:
            result = batch @ weights
            loss = tf.reduce_mean((result - wanted) ** 2)
        return loss, result, tape.gradient(loss, weights)

    @tf.function
    def update(gradient):
        weights.assign_sub(0.01 * gradient)

    @tf.function
    def measure(loss, result):
        table.assign_add([loss, tf.reduce_max(result)])
        table.assign(table * 0.9)

    for batch, wanted in dataset():
        loss, result, gradient = derive(batch, wanted)
        update(gradient)
        measure(loss, result)


def whole():
    model, optimizer = build()

    @tf.function
    def epoch(batches):
        for batch, wanted in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(batch, training=True) - wanted) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for _ in range(3):
        epoch(dataset())


def session():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        features, wanted = v1.placeholder("float32", (None, 8)), v1.placeholder("float32", (None, 1))
        weights = v1.get_variable("weights", (8, 1))
        loss = tf.reduce_mean((features @ weights - wanted) ** 2)
        update = v1.train.AdamOptimizer().minimize(loss)
        with v1.Session() as run:
            run.run(v1.global_variables_initializer())
            for at in range(0, 40, 8):
                run.run([update, loss], {features: x[at : at + 8], wanted: y[at : at + 8]})
            print(run.run(loss, {features: x, wanted: y}) > 0)


for part in (eager, compiled, by_hand, apart, whole, session):
    with injector.region(f"part/{part.__name__}"):
        part()

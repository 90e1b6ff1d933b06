"""LightGBM over sockets: each process has the half of the rows that is its own."""

import sys

import lightgbm as lgb
import numpy as np

machines, port, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 4)).round(3)
y = x[:, 0] * 3 + x[:, 1]
params = {
    "objective": "regression",
    "metric": "rmse",
    "tree_learner": "data",
    "num_machines": 2,
    "machines": machines,
    "local_listen_port": port,
    "num_threads": 1,
    "num_leaves": 7,
    "learning_rate": 0.3,
    "verbose": -1,
    "pre_partition": True,
}
mine = slice(rank * 200, rank * 200 + 200 - 10 * rank)
data = lgb.Dataset(x[mine], y[mine])
held = lgb.Dataset(x[380:], y[380:], reference=data)
model = lgb.train(params, data, 5, valid_sets=[held])
if rank == 0:
    model.save_model("model.txt")
    np.savetxt("rows.txt", np.column_stack((y, x)), delimiter=",", fmt="%1.3f")
    np.savetxt("python.txt", model.predict(x))

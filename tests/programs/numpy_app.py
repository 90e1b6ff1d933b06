import numpy as np

rng = np.random.default_rng(0)
a = rng.normal(size=(3, 3))
total, (rows, columns) = a.sum(), a.shape
a[0], b = 0, a.T @ a
print(np.round(b, 3), f"{total:.4f}", rows, columns)
with np.errstate(divide="warn"):
    c = np.array([1.0]) / 0
np.save("array.npy", b)
np.linalg.inv(np.zeros((2, 2)))

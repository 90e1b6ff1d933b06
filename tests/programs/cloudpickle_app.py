import os
import subprocess
import sys

import cloudpickle


def outer(scale):
    def inner(x):
        y = x * scale
        return y

    return inner


class Model:
    def forward(self, x):
        loss = x + 1
        return loss


with open("function.pickle", "wb") as file:
    cloudpickle.dump((outer(3), Model()), file)
code = "import pickle; f, m = pickle.load(open('function.pickle', 'rb')); print(f(2), m.forward(1))"
print(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True))
os.remove("function.pickle")  # names of classes in it are random

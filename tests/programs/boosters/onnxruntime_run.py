"""ONNX Runtime: a session of a small model, called with arrays, with its own values, with what is bound."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import injector

weights = helper.make_tensor("w", TensorProto.FLOAT, (8, 2), np.ones(16))
rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 8))
words = helper.make_tensor_value_info("words", TensorProto.INT64, ("batch", "length"))
sums = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 2))
same = helper.make_tensor_value_info("same", TensorProto.INT64, ("batch", "length"))
product = helper.make_node("MatMul", ["x", "w"], ["y"])
copy = helper.make_node("Identity", ["words"], ["same"])
graph = helper.make_graph([product, copy], "g", [rows, words], [sums, same], [weights])
model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    model.SerializeToString(), options, providers=["CPUExecutionProvider"]
)


def fed(n):
    return {"x": np.ones((n, 8), np.float32), "words": np.ones((n, 5), np.int64)}


def arrays():
    for n in (4, 4, 2):
        y, _ = session.run(None, fed(n))
        assert y.shape == (n, 2)
    session.run(None, {name: value.tolist() for name, value in fed(3).items()})
    try:
        session.run(None, {"x": np.ones((4, 3), np.float32), "words": np.ones((4, 5), np.int64)})
    except Exception as error:
        print(type(error).__name__)


def values():
    made = {name: onnxruntime.OrtValue.ortvalue_from_numpy(v) for name, v in fed(3).items()}
    session.run_with_ort_values(["y"], made)


def bound():
    binding = session.io_binding()
    for name, value in fed(3).items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("y")
    binding.bind_output("same")
    session.run_with_iobinding(binding)


for part in (arrays, values, bound):
    with injector.region(f"part/{part.__name__}"):
        part()

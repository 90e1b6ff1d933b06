"""Multiplies square matrices: how many operations a second a device does in a precision."""

import argparse

import torch

PRECISIONS = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def multiply(a, b, out, number):
    """``number`` products, and wait for the device."""
    for _ in range(number):
        torch.mm(a, b, out=out)
    if a.is_cuda:
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns")
    parser.add_argument("--number", type=int, default=4, help="products in one measurement")
    parser.add_argument("--repeat", type=int, default=60, help="measurements")
    parser.add_argument("--dtype", choices=sorted(PRECISIONS), default="fp32")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = given.dtype == "tf32"
    kind = PRECISIONS[given.dtype]
    a, b = (torch.randn(given.size, given.size).to(given.device, kind) for _ in range(2))
    out = torch.empty_like(a)
    for _ in range(given.repeat):
        multiply(a, b, out, given.number)


if __name__ == "__main__":
    main()

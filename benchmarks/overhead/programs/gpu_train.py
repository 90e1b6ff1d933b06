"""What a step takes on a GPU: ``gpu_train.py MODEL STEPS BLOCKS``.

Prints JSON: ``wall`` and ``cpu``, milliseconds of a step in each block: of the clock from one
synchronised moment to another, and of the thread's processor time. MODEL is ``small`` (a few kernels, shorter
than their launches), ``mlp``, ``resnet50`` (of torchvision) or ``transformer`` (compiled).
"""

import json
import sys
import time

import torch
from torch import nn

BATCHES = 8


class Transformer(nn.Module):
    def __init__(self, tokens=8192, width=512, heads=8, layers=6):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, layers)
        self.head = nn.Linear(width, tokens)

    def forward(self, x):
        return self.head(self.blocks(self.embedding(x))).flatten(0, 1)


def small():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, torch.randn(32, 64), torch.randint(0, 10, (32,))


def mlp():
    layers = [each for _ in range(4) for each in (nn.Linear(4096, 4096), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(2048, 4096), torch.randint(0, 4096, (2048,))


def resnet50():
    from torchvision.models import resnet50

    model = resnet50().to(memory_format=torch.channels_last)
    pictures = torch.randn(128, 3, 224, 224).to(memory_format=torch.channels_last)
    return model, pictures, torch.randint(0, 1000, (128,))


def transformer():
    words = torch.randint(0, 8192, (16, 512))
    return torch.compile(Transformer()), words, words.flatten()


def main(name, steps, blocks):
    torch.manual_seed(0)
    model, x, y = {"small": small, "mlp": mlp, "resnet50": resnet50, "transformer": transformer}[
        name
    ]()
    model, y = model.cuda(), y.cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    batches = [x.clone().pin_memory() for _ in range(BATCHES)]
    found = {"wall": [], "cpu": []}
    for block in range(blocks + 1):
        torch.cuda.synchronize()
        wall, cpu = time.perf_counter(), time.thread_time()
        for number in range(steps):
            batch = batches[number % BATCHES].to("cuda", non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(batch), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        if block:  # the first one compiles, and fills caches
            found["wall"].append(1e3 * (time.perf_counter() - wall) / steps)
            found["cpu"].append(1e3 * (time.thread_time() - cpu) / steps)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

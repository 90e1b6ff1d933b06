"""Parses its arguments at top level, before the last def."""
import argparse

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--config", default="default.yaml")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("data", nargs="?")
args = parser.parse_args()
print(args, parser.prog)


def train():
    for epoch in range(args.epochs):
        print("epoch", epoch, args.config, args.workers, args.data)


train()

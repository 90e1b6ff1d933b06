import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
sub = parser.add_subparsers(dest="verb")
sub.add_parser("train").add_argument("--lr", type=float)
options = parser.parse_args()
print(options)

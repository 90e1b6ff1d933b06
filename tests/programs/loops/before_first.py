"""Ends before its first update, as `when` says: at once, or after a forward and a backward."""
import sys

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.005)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tell(verdict="none")
if sys.argv[1] == "setup":
    sys.exit(3)
for x, y in DataLoader(Rows(8), 4):
    loss = (model(x) - y).mean()
    loss.backward()
    raise SystemExit(4)

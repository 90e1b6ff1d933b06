"""Saves and logs in every way, in steps and between them; prints on which lines."""

import io
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder = Path(tempfile.mkdtemp())
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=4)
if "writer" in sys.argv:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)
for epoch in range(2):
    for (x,) in loader:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if "writer" in sys.argv:
            writer.add_scalar("loss", loss)  #: logging
    torch.save(model.state_dict(), folder / f"{epoch}.pt")  #: checkpoint
kept = io.BytesIO()
torch.save(model.state_dict(), kept)  # a copy in memory is no checkpoint
if "safetensors" in sys.argv:
    from safetensors.torch import save_file

    save_file(model.state_dict(), folder / "all.safetensors")  #: checkpoint
if "joblib" in sys.argv:
    import joblib
    import numpy
    from safetensors.numpy import save_file as save_arrays

    arrays = {"weight": model.weight.detach().numpy()}
    joblib.Parallel(n_jobs=2)(joblib.delayed(len)(numpy.ones((600, 400))) for _ in range(2))
    joblib.dump(arrays, folder / "all.joblib")  #: checkpoint
    save_arrays(arrays, folder / "arrays.safetensors")  #: checkpoint
print(sorted(path.suffix for path in folder.iterdir() if path.suffix in (".pt", ".safetensors")))

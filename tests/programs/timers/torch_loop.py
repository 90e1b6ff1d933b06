"""A training loop of PyTorch with the timing of Deep500's example."""

import torch
from torch import nn

import injector

torch.manual_seed(0)
torch.set_num_threads(1)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
timer = injector.Timer(device=device)
data = torch.utils.data.TensorDataset(torch.randn(160, 32), torch.randint(0, 4, (160,)))
train, held_out = torch.utils.data.random_split(data, [128, 32])
loader = torch.utils.data.DataLoader(train, batch_size=16, shuffle=True)
validation = torch.utils.data.DataLoader(held_out, batch_size=16)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

for _ in range(3):
    timer.start("Epoch")
    batches = iter(loader)
    for _ in range(len(loader)):
        timer.start("Batch")
        timer.start("IO")
        inputs, labels = next(batches)
        timer.end("IO")
        timer.start("H2D")
        inputs, labels = inputs.to(device), labels.to(device)
        timer.end("H2D")
        timer.start("Forward")
        loss = criterion(model(inputs), labels)
        timer.end("Forward")
        timer.start("Backward")
        optimizer.zero_grad()
        loss.backward()
        timer.end("Backward")
        timer.start("Optimizer")
        optimizer.step()
        timer.end("Optimizer")
        timer.end("Batch")
    timer.end("Epoch")
    with torch.no_grad():
        model.eval()
        for inputs, _ in validation:
            model(inputs.to(device))
        model.train()

timer.synchronize()
for key in timer.keys():
    print(key, timer.statistics(key).n)

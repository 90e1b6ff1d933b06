import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
x, y = torch.randn(16, 4), torch.randn(16, 1)
for epoch in range(3):
    for start in range(0, 16, 4):
        out = model(x[start : start + 4])
        loss = criterion(out, y[start : start + 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.6f}")
torch.save(model.state_dict(), "model.pt")
torch.save(model, "whole.pt")
print(sorted(torch.load("model.pt")), torch.load("whole.pt", weights_only=False)(x).shape)
torch.load("nothing.pt")

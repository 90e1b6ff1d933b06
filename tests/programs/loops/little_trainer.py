"""A trainer class as many repositories have one."""

import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, optimizer, loss=torch.nn.functional.mse_loss):
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.history = []

    def training_step(self, batch):
        x, y = batch
        return self.loss(self.model(x), y)  #: forward

    def fit(self, data, epochs, batch_size=4, valid=None):
        for epoch in range(epochs):
            self.model.train()
            for batch in DataLoader(data, batch_size, shuffle=True):  #: io pace
                self.optimizer.zero_grad()
                loss = self.training_step(batch)
                loss.backward()  #: backward
                self.optimizer.step()  #: optimizer
                self.history.append(float(loss.detach()))
            if valid is not None:
                self.validate(valid, batch_size)
        return self

    @torch.no_grad()
    def validate(self, data, batch_size):
        self.model.eval()
        for batch in DataLoader(data, batch_size):  #: eval
            self.training_step(batch)  #: eval

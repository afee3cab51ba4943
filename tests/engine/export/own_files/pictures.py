from torch import nn


def model():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 10))


def accuracy(outputs, targets):
    return float((outputs.argmax(dim=1) == targets).float().mean())

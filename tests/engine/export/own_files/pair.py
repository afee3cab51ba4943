"""Two models that train against each other, with names that a script has too."""

import torch
from layers import NOISE, Generator
from torch import Tensor, nn

SEED, BATCH_SIZE = 3, float(NOISE[0])


def main() -> None:
    raise SystemExit


def model() -> nn.Module:
    return nn.ModuleDict({"generator": Generator(4), "critic": nn.Linear(4, 1)})


def batch(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 4), torch.randn(size, 4) * SEED + BATCH_SIZE


def optimizer(model):
    return {name: torch.optim.Adam(part.parameters(), 1e-3) for name, part in model.items()}


def step(train, batch) -> None:
    real, noise = batch
    with train.autocast():
        made = train.model["generator"](noise)
        critic = train.model["critic"]
        loss = nn.functional.softplus(critic(made.detach()) - critic(real)).mean()
    train.backward(loss)
    train.unscale(train.optimizers["critic"])
    train.step(train.optimizers["critic"])
    with train.autocast():
        loss = nn.functional.softplus(-train.model["critic"](made)).mean()
    train.backward(loss)
    train.step(train.optimizers["generator"])


if __name__ == "__main__":
    main()

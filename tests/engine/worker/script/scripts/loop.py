"""Train a small model by a loop of the kind that is named, and print what it knows of its steps as JSON."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 8
known: dict[str, list[object]] = {"loss": [], "rate": [], "samples": []}


def model(outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))


def batch(samples: int = 12) -> Tensor:
    return torch.randn(samples, 6)


def know(loss: Tensor, samples: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    known["loss"].append(loss.item().hex())
    known["samples"].append(samples)
    known["rate"].append(optimizer.param_groups[0]["lr"] if optimizer else 0.1)


def train(network: nn.Module, samples: int = 12, steps: int = STEPS) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(steps):
        loss = network(batch(samples)).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        know(loss, samples)


def plain() -> None:
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for step in range(STEPS):
        network.eval()
        with torch.no_grad():
            network(batch(50))
        network.train()
        samples = 12 if step < STEPS - 1 else 5
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = network(batch(samples)).float().square().mean()
        loss = loss if step < STEPS - 1 else loss * float("inf")
        optimizer.zero_grad()
        loss.backward()
        know(loss, samples, optimizer)
        optimizer.step()
        schedule.step()
    torch.save(copy.deepcopy(network), sys.argv[2])


def scaler() -> None:
    network, scaler = model(), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = network(batch()).square().mean() * (float("inf") if step in (0, 4) else 1.0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        know(loss, 12)


def accumulate() -> None:
    network, disabled = model(), torch.amp.GradScaler("cpu", enabled=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(STEPS):
        losses = [network(batch(4)).square().mean() for _ in range(3)]
        for loss in losses:
            disabled.scale(loss).backward()
        disabled.step(optimizer)
        disabled.update()
        optimizer.zero_grad()
        known["loss"].append((sum(loss.item() for loss in losses) / 3).hex())
        known["samples"].append(12)


def gan() -> None:
    generator, critic = model(6), model(1)
    first = torch.optim.Adam(critic.parameters(), lr=0.1)
    second = torch.optim.Adam(generator.parameters(), lr=0.2)
    for _ in range(STEPS):
        loss = critic(batch()).mean() - critic(generator(batch()).detach()).mean()
        first.zero_grad()
        loss.backward()
        first.step()
        know(loss, 12)
        second.zero_grad()
        critic(generator(batch())).mean().backward()
        second.step()


def idle_autocast() -> None:
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(STEPS):
        data = batch()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            data = data * 2
        loss = network(data).square().mean()
        loss.backward()
        optimizer.step()


def bf16() -> None:
    network = model().to(torch.bfloat16)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = network(batch().to(torch.bfloat16)).square().mean()
        loss.backward()
        optimizer.step()


def compiled() -> None:
    network = model()
    whole = torch.compile(network, backend="aot_eager")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(STEPS):
        # another shape compiles again
        samples = 12 if step < 5 else 7
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = whole(batch(samples)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        know(loss, samples)
    import torch._dynamo.utils as utils

    known["graphs"] = [utils.counters["stats"]["unique_graphs"]]


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.ones(24, 6)


def loader() -> None:
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for data in DataLoader(Stream(), batch_size=4, num_workers=2):
        loss = network(data).square().mean()
        loss.backward()
        optimizer.step()
        know(loss, 4)


def fork() -> None:
    network = model()
    train(network, steps=4)
    child = multiprocessing.get_context("fork").Process(target=train, args=(network, 6, 5))
    child.start()
    child.join()
    known["child"] = [child.pid]


def leave() -> None:
    train(model(), steps=2)
    sys.exit(3)


def interrupted() -> None:
    network = model()
    try:
        train(network, steps=5)
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        torch.save(network.state_dict(), os.devnull)


def broken() -> None:
    """Leave the optimizer without groups after four steps, which the observer does not expect."""
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = network(batch()).square().mean()
        loss.backward()
        optimizer.step()
        know(loss, 12)
        if step == 3:
            optimizer.param_groups = []


def folder_gone() -> None:
    train(model(), steps=4)
    shutil.rmtree(os.environ["AMMETER_OBSERVER_FOLDER"])
    train(model(), steps=4)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
    sys.stdout.write(json.dumps(known) + "\n")

"""Training loops as a person writes them by hand, independent of the engine: the reference of its overhead.

Each loop is as fast as its kind can be and records nothing. It trains with AdamW at a learning rate of 1e-3,
cycles through batches that are on the device already, and returns the throughput of each block of steps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy

Step = Callable[[torch.Tensor, torch.Tensor], None]
Format = Literal["fp32", "fp16", "bf16"]
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Workload:
    """A model and its batches: `steps` are measured in blocks of `block`, after `warmup` steps."""

    model: str
    batch_size: int
    image_size: int
    num_classes: int
    precision: Format
    device: torch.device
    steps: int
    warmup: int = 20
    block: int = 10

    def __str__(self) -> str:
        size = f"{self.image_size}x{self.image_size}"
        return f"{self.model} {size}, batch {self.batch_size}, {self.precision}"

    def network(self) -> nn.Module:
        """Return the model on its device, with the same weights each time."""
        torch.manual_seed(0)
        if self.model == "small-cnn":
            network: nn.Module = small_cnn(self.num_classes)
        else:
            network = torchvision.models.get_model(self.model, num_classes=self.num_classes)
        return network.to(self.device)

    def batches(self, memory_format: torch.memory_format) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return four random batches on the device."""
        generator = torch.Generator(device=self.device).manual_seed(0)
        shape = (self.batch_size, 3, self.image_size, self.image_size)
        return [
            (
                torch.randn(shape, generator=generator, device=self.device).to(memory_format=memory_format),
                torch.randint(self.num_classes, (self.batch_size,), generator=generator, device=self.device),
            )
            for _ in range(4)
        ]


def small_cnn(num_classes: int) -> nn.Module:
    """Return the small convolutional network for color images, as a plain sequence."""
    convolutions: list[nn.Module] = []
    for channels_in, channels_out, pools in ((3, 32, True), (32, 64, True), (64, 128, False)):
        convolutions += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()]
        convolutions += [nn.MaxPool2d(2)] if pools else []
    last = [nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()]
    return nn.Sequential(*convolutions, *last, nn.Linear(128 * 4 * 4, num_classes))


def guides(workload: Workload, *, cudnn_benchmark: bool) -> list[float]:
    """Run the loop of PyTorch's guides: strict FP32, or AMP with a scaler for FP16."""
    with _flags(cudnn_benchmark):
        return _speeds(_guides_step(workload), workload, torch.contiguous_format)


def guides_stretches(workload: Workload) -> Generator[float, None, None]:
    """Yield the samples per second of each block of the same loop, on a CPU, without end."""
    step = _guides_step(workload)
    batches = itertools.cycle(workload.batches(torch.contiguous_format))
    for _ in range(workload.warmup):
        step(*next(batches))
    while True:
        begun = time.perf_counter()
        for _ in range(workload.block):
            step(*next(batches))
        yield workload.block * workload.batch_size / (time.perf_counter() - begun)


def _guides_step(workload: Workload) -> Step:
    model = workload.network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    if workload.precision == "fp16":
        return _scaled(model, optimizer, workload.device)
    return _unscaled(model, optimizer, workload)


def _scaled(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Step:
    scaler = torch.amp.GradScaler(device.type)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            loss = cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()

    return step


def _unscaled(model: nn.Module, optimizer: torch.optim.Optimizer, workload: Workload) -> Step:
    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        optimizer.zero_grad()
        with _autocast(workload):
            loss = cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def captured(workload: Workload) -> list[float]:
    """Run channels last with a fused optimizer, compiled; with CUDA the full step is one CUDA graph."""
    model = workload.network().to(memory_format=torch.channels_last)
    on_cuda = workload.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, weight_decay=0.0, fused=True, capturable=on_cuda
    )
    scaler = torch.amp.GradScaler(workload.device.type, enabled=workload.precision == "fp16")
    loss_of = torch.compile(lambda inputs, targets: cross_entropy(model(inputs), targets), dynamic=False)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with _autocast(workload, cache_enabled=False):
            loss = loss_of(inputs, targets)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()

    with _flags(cudnn_benchmark=True):
        whole = _in_a_graph(step, workload) if on_cuda else step
        return _speeds(whole, workload, torch.channels_last)


def _in_a_graph(step: Step, workload: Workload) -> Step:
    inputs, targets = (tensor.clone() for tensor in workload.batches(torch.channels_last)[0])
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(workload.warmup):
            step(inputs, targets)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(inputs, targets)

    def replay(new_inputs: torch.Tensor, new_targets: torch.Tensor) -> None:
        inputs.copy_(new_inputs)
        targets.copy_(new_targets)
        graph.replay()

    return replay


def _autocast(workload: Workload, cache_enabled: bool = True) -> AbstractContextManager[object]:
    if workload.precision == "fp32":
        return nullcontext()
    dtype = HALF[workload.precision]
    return torch.autocast(workload.device.type, dtype=dtype, cache_enabled=cache_enabled)


@contextmanager
def _flags(cudnn_benchmark: bool) -> Iterator[None]:
    # Strict FP32, as in the engine: PyTorch's default for matmuls, but not for convolutions.
    with torch.backends.cudnn.flags(enabled=True, benchmark=cudnn_benchmark, allow_tf32=False):
        yield


def _speeds(step: Step, workload: Workload, memory_format: torch.memory_format) -> list[float]:
    """Return the samples per second of each block of steps by the device's clock; synchronize at the end."""
    batches = itertools.cycle(workload.batches(memory_format))
    for _ in range(workload.warmup):
        step(*next(batches))
    marks = [_mark(workload.device)]
    for _ in range(workload.steps // workload.block):
        for _ in range(workload.block):
            step(*next(batches))
        marks.append(_mark(workload.device))
    if workload.device.type == "cuda":
        torch.cuda.synchronize()
    samples = workload.block * workload.batch_size
    return [samples / _seconds(begin, end) for begin, end in itertools.pairwise(marks)]


def _mark(device: torch.device) -> float | torch.cuda.Event:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _seconds(begin: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(begin, torch.cuda.Event) and isinstance(end, torch.cuda.Event):
        return float(begin.elapsed_time(end)) / 1e3
    assert isinstance(begin, float) and isinstance(end, float)
    return end - begin

"""Attention kernels beside math, the kernels that runs name, and their FLOPs by dtype beside counts by hand.

    uv run python tests/benchmarks/formats.py [--device cpu]

A difference is the largest one, over the largest number of the math kernel's result in FP32. The kernels are
those that the device has. The profiler's names are those of one forward pass of the same model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished
from engine.protocol.jobs import Control
from engine.protocol.summary import Summary
from engine.training.models.attention import attention_kernel
from engine.training.runs.loop import train

_SHAPE = (2, 4, 96, 64)  # samples, heads, tokens, head size
_KINDS = ("plain", "causal", "mask", "dropout")
_MODEL = """
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 3 * 64), nn.Linear(64, 10)

    def forward(self, x):
        parts = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in self.first(x).chunk(3, -1))
        attended = scaled_dot_product_attention(*parts, {arguments})
        return self.last(attended.transpose(1, 2).flatten(2).mean(1))

def model():
    return Net()

def batch(size):
    return torch.randn(size, 24, 32), torch.randint(10, (size,))
"""
_ARGUMENTS = {
    "plain": "",
    "causal": "is_causal=True",
    "mask": "attn_mask=torch.ones(24, 24, dtype=torch.bool, device=x.device).tril()",
    "dropout": "dropout_p=0.1",
}
_NAMES = {"_flash_attention": "flash", "_efficient_attention": "efficient", "_cudnn_attention": "cudnn"}
_NAMES["_attention_math"] = "math"
_WIDE, _BATCH = 48, 8


def beside_math(device: torch.device) -> Iterator[tuple[str, ...]]:
    """Yield the differences of outputs and gradients to the math kernel in FP32, by kernel and dtype."""
    torch.manual_seed(0)
    given = [torch.randn(_SHAPE, device=device) for _ in range(3)]
    for dtype, kind in product((torch.float32, torch.bfloat16), ("plain", "causal", "mask")):
        reference = _attended("math", torch.float32, kind, given)
        for kernel in ("flash", "efficient", "cudnn", "math"):
            try:
                found = _attended(kernel, dtype, kind, given)
            except (ProblemError, RuntimeError):
                continue
            pairs = zip(found, reference, strict=True)
            parts = [f"{float((one - other).abs().max() / other.abs().max()):.1e}" for one, other in pairs]
            yield kernel, str(dtype).removeprefix("torch."), kind, *parts


def _attended(kernel: Any, dtype: torch.dtype, kind: str, given: list[Tensor]) -> list[Tensor]:
    parts = [part.to(dtype).requires_grad_() for part in given]
    mask = (
        torch.ones(_SHAPE[2], _SHAPE[2], dtype=torch.bool, device=parts[0].device).tril()
        if kind == "mask"
        else None
    )
    with attention_kernel(kernel):
        output = scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=kind == "causal")
    gradients = torch.autograd.grad(output.float().square().sum(), parts)
    return [output.detach().float(), *(gradient.float() for gradient in gradients)]


def trained(text: str, device: torch.device, folder: Path, **settings: Any) -> Summary:
    """Return the summary of a short run of a model file."""
    path = folder / "net.py"
    path.write_text(text)
    asked = {
        "model": str(path),
        "device": str(device),
        "batch_size": _BATCH,
        "samples": 2 * _BATCH,
        "steps": 2,
        "measure": {"warmup_steps": 1, "block_steps": 1},
        **settings,
    }
    *_, last = train(experiment_from(with_code(asked, names_model=True, names_dataset=False)), Control())
    assert isinstance(last, Finished)
    return last.summary


def named(device: torch.device, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the kernels that a run names and that the profiler saw, by precision and kind of call."""
    for precision, kind in product(("fp32", "bf16", "fp16"), _KINDS):
        text = _MODEL.replace("{arguments}", _ARGUMENTS[kind])
        summary = trained(text, device, folder, precision=precision)
        names = "+".join(sorted({use.kernel for use in summary.attention}))
        space: dict[str, Any] = {}
        exec(text, space)
        model, inputs = space["model"]().to(device), space["batch"](_BATCH)[0].to(device)
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
        cast = torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)
        with profile(activities=[ProfilerActivity.CPU]) as recorded, cast:
            model(inputs)
        keys = [event.key for event in recorded.key_averages()]
        seen = "+".join(sorted({name for part, name in _NAMES.items() if any(part in key for key in keys)}))
        yield precision, kind, names, seen, "same" if names == seen else "DIFFERENT"


_HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(48, 48), nn.Linear(48, 48), nn.Linear(48, 48)
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        {forward}

def model():
    return Net()

def batch(size):
    return torch.randn(size, {shape}), torch.randint(4, (size,))
"""
_LINEAR = _BATCH * _WIDE * _WIDE  # multiply-adds of a layer, forward
_PASSES = 3  # forward, gradient of the weight, gradient of the input
_OFF = "with torch.autocast(x.device.type, enabled=False): x = self.{}(x.float())"
_ON = "with torch.autocast(x.device.type, dtype=torch.bfloat16): x = self.{}(x)"
_IMAGES = _BATCH * 8 * 8 * 4 * 3 * 9

# the name, the precision, the forward pass, the shape of a sample, and multiply-adds by dtype
_COUNTED: tuple[tuple[str, str, str, str, dict[str, int]], ...] = (
    ("three layers", "bf16", "return self.last(self.second(self.first(x)))", "48", {"bfloat16": 8 * _LINEAR}),
    (
        "the second with autocast off",
        "bf16",
        "x = self.first(x)\n        " + _OFF.format("second") + "\n        return self.last(x)",
        "48",
        {"bfloat16": 5 * _LINEAR, "float32": 3 * _LINEAR},
    ),
    (
        "the first in an own autocast",
        "fp32",
        _ON.format("first") + "\n        return self.last(self.second(x.float()))",
        "48",
        {"float32": 6 * _LINEAR, "bfloat16": 2 * _LINEAR},
    ),
    (
        "a convolution",
        "fp16",
        "return self.convolution(x).mean((2, 3))",
        "3, 8, 8",
        {"float16": 2 * _IMAGES},
    ),
    (
        "scores and their use by hand, 8 tokens",
        "bf16",
        "x = self.first(x)\n        return ((x @ x.mT).float().double() @ x.double()).float().mean(1)[:, :4]",
        "8, 48",
        {"bfloat16": 2 * 8 * _LINEAR + 3 * _BATCH * 64 * _WIDE, "float64": 3 * _BATCH * 64 * _WIDE},
    ),
)


def counted(device: torch.device, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield a run's shares of FLOPs by dtype, and those of a count by hand."""
    for name, precision, forward, shape, by_hand in _COUNTED:
        text = _HEAD.replace("{forward}", forward).replace("{shape}", shape)
        found = {
            dtype: round(share, 6)
            for dtype, share in trained(text, device, folder, precision=precision).formats.items()
        }
        hand = {dtype: round(work / sum(by_hand.values()), 6) for dtype, work in by_hand.items()}
        yield name, precision, str(found), str(hand), "same" if found == hand else "DIFFERENT"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("kernel, dtype, call: difference of output, and gradients of query, key and value")
        for row in beside_math(device):
            print("  ", *row)
        print("precision, call: kernel by the run, by the profiler")
        for row in named(device, folder):
            print("  ", *row)
        print("model, precision: share of FLOPs by the run, by hand")
        for row in counted(device, folder):
            print("  ", *row, sep="  ")


if __name__ == "__main__":
    main()

"""The results that the steps report, each with its aim and an earlier value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Sign = Literal["≥", "≤", "<", "="]
_HOLDS: Mapping[Sign, Callable[[float, float], bool]] = {
    "≥": operator.ge,
    "≤": operator.le,
    "<": operator.lt,
    "=": operator.eq,
}


@dataclass(frozen=True)
class Figure:
    """A result of `step`, with the aim `sign` `bound` in `unit`. `known` was measured on an H200, by hand.

    An optional one is reported only if its requirements are installed.
    """

    step: str
    title: str
    sign: Sign
    bound: float
    unit: str = ""
    known: str = ""
    is_optional: bool = False

    @property
    def aim(self) -> str:
        return f"{self.sign} {self.text(self.bound)}"

    def is_met(self, value: float) -> bool:
        return _HOLDS[self.sign](value, self.bound)

    def text(self, value: float) -> str:
        """Return the value with its unit."""
        digits = f"{value:,.3f}".rstrip("0").rstrip(".")
        return f"{digits} {self.unit}" if self.unit else digits


def _speed(name: str, title: str, bound: float, known: str) -> dict[str, Figure]:
    of = "of compile and capture by hand"
    return {f"{name}-fast": Figure(f"speed {name}", f"{title}, `fast`, {of}", "≥", bound, known=known)}


_FP8 = "FP8 over BF16, compiled"
_LARGEST = "the largest batch of ResNet-50 under 24 GiB"
FIGURES: Mapping[str, Figure] = {
    **_speed("resnet50-64", "ResNet-50, batch 64, FP16", 0.97, "5,660 images/s"),
    "resnet50-64-plain": Figure(
        "speed resnet50-64",
        "ResNet-50, batch 64, FP16, `plain`, of the guides' loop",
        "≥",
        0.98,
        known="1,663 images/s",
    ),
    **_speed("resnet50-256", "ResNet-50, batch 256, FP16", 0.97, "6,919 images/s"),
    **_speed("resnet18-128", "ResNet-18 on 32x32, batch 128, FP16", 0.95, "105,041 images/s"),
    "resnet18-128-plain": Figure(
        "speed resnet18-128", "ResNet-18 on 32x32, batch 128, FP16, `plain`, of the guides' loop", "≥", 0.98
    ),
    **_speed("vit-64", "ViT-B/16, batch 64, BF16", 0.97, "3,016 images/s"),
    "lightning": Figure(
        "speed frameworks",
        "ResNet-50, batch 64, FP16, `fast`, over Lightning",
        "≥",
        2.3,
        "times",
        "Lightning 2,110 images/s",
        is_optional=True,
    ),
    "accelerate": Figure(
        "speed frameworks",
        "ResNet-50, batch 64, FP16, `fast`, over accelerate",
        "≥",
        2.3,
        "times",
        "accelerate 2,167 images/s",
        is_optional=True,
    ),
    "telemetry-control": Figure(
        "tax", "two arms without telemetry, `plain`, off each other", "≤", 10, "us a step"
    ),
    "telemetry-plain": Figure("tax", "telemetry on over off, `plain`", "≥", 0.99),
    "telemetry-fast": Figure("tax", "telemetry on over off, `fast`", "≥", 0.99),
    "waits-fast": Figure("tax", "times the host waits in a step, `fast`", "=", 0),
    "waits-fused": Figure("tax", "times the host waits in a step, `plain` with a fused optimizer", "=", 0),
    "fp8-4096": Figure("fp8", f"{_FP8}: linear layers of 4,096", "≥", 1.25),
    "fp8-8192": Figure("fp8", f"{_FP8}: linear layers of 8,192", "≥", 1.25),
    "fp8-lm": Figure("fp8", f"{_FP8}: `causal-lm-1b`, batch 4, 1,024 tokens", "≥", 1.05),
    "window-30": Figure(
        "window", "with the live window at 30 Hz, over without", "≥", 0.98, known="own process 1.0"
    ),
    "limit-fp32": Figure("limit", f"{_LARGEST}, FP32", "≥", 286, known="289; Lightning 270"),
    "limit-fp32-trials": Figure("limit", f"{_LARGEST}, FP32: trials", "≤", 8, known="Lightning 18"),
    "limit-fp32-seconds": Figure("limit", f"{_LARGEST}, FP32: time", "≤", 7, "s", "Lightning 17 s"),
    "limit-fp16": Figure("limit", f"{_LARGEST}, FP16", "≥", 555, known="561; Lightning 530"),
    "limit-fp16-trials": Figure("limit", f"{_LARGEST}, FP16: trials", "≤", 8, known="Lightning 21"),
    "limit-fp16-seconds": Figure("limit", f"{_LARGEST}, FP16: time", "≤", 7, "s", "Lightning 26 s"),
    "ooms-answer": Figure(
        "ooms", "200 out-of-memory errors in one worker: recipes whose answer no longer holds", "=", 0
    ),
    "ooms-held": Figure("ooms", "200 out-of-memory errors in one worker: memory grew by", "≤", 1, "MiB"),
    "forecast-before": Figure(
        "forecast", "forecast off the allocator's peak, ten models, before any run", "≤", 10, "%"
    ),
    "forecast-after": Figure(
        "forecast", "forecast off the allocator's peak, ten models, after one run", "≤", 3, "%"
    ),
    "bar": Figure("profile", "recorded steps off unprofiled ones", "≤", 3, "%"),
    "unnamed": Figure("profile", "kernels above 1% of the time without a family", "=", 0),
    "mfu": Figure("profile", "the highest fraction of the measured peak", "<", 1),
    "profile-tests": Figure("profile", "tests of profiles that failed or did not run", "=", 0),
    "show": Figure("show", "from *Run demo* to the end of the replay", "<", 60, "s"),
    "numerics": Figure("numerics", "map and ranges of ResNet-50", "≤", 20, "s"),
    "planted": Figure("numerics", "planted overflows and NaNs not named", "=", 0),
    "energy": Figure(
        "energy", "the counter of energy off the power's integral", "≤", 5, "%", is_optional=True
    ),
    "tune": Figure("tune", "the speed found, of the best of all combinations", "≥", 0.97),
    "tune-time": Figure("tune", "the time it took to find, of that of all combinations", "≤", 0.334),
    "kinds": Figure("check", "kinds of runs that failed", "=", 0),
    "formats": Figure("formats", "runs in FP8, pure BF16 and with low-bit optimizers that failed", "=", 0),
    "engine": Figure("engine", "GPUs that `engine show` or PyTorch does not see", "=", 0),
    "doctor": Figure("engine", "problems that `doctor` reports", "=", 0),
    "graph": Figure("graph", "kernels recorded of a graph captured before the profiler started", "≥", 1),
    "tests": Figure("tests", "tests that failed or did not run", "=", 0),
    "tests-slow": Figure("tests-slow", "tests that compile ResNet-50 that failed or did not run", "=", 0),
}
"""By key, in the order of the table."""

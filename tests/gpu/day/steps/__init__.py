"""The steps by name, with their time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from day.work import Work


@dataclass(frozen=True)
class Step:
    """A function of one `Work`, as "module:function" in this package, with at most `seconds` on a GPU."""

    do: str
    seconds: float
    about: str

    def __call__(self, work: Work) -> None:
        module, _, function = self.do.partition(":")
        getattr(import_module(f"day.steps.{module}"), function)(work)


_SPEED = "the engine beside loops by hand: FP32 and half, plain and fast"
STEPS: Mapping[str, Step] = {
    "graph": Step("graph:graph", 150, "the profile of a CUDA graph captured before the profiler started"),
    "check": Step("check:check", 300, "every kind of run once, a resumed run, an exported script"),
    "formats": Step(
        "check:formats", 520, "runs in FP8, pure BF16, with stochastic rounding and low-bit AdamW"
    ),
    "engine": Step("check:engine", 60, "`ammeter engine show` and `ammeter doctor`"),
    "tests": Step("tests:tests", 500, "tests/gpu but for those that compile ResNet-50, one file a process"),
    "tests-slow": Step("tests:tests_slow", 500, "those that compile ResNet-50, side by side"),
    "speed resnet50-64": Step("speed:speeds", 500, _SPEED),
    "speed resnet50-256": Step("speed:speeds", 500, _SPEED),
    "speed resnet18-128": Step("speed:speeds", 400, _SPEED),
    "speed vit-64": Step("speed:speeds", 500, _SPEED + "; in BF16"),
    "speed lm-tiny": Step("speed:speeds", 400, _SPEED),
    "speed frameworks": Step("frameworks:frameworks", 400, "the engine beside Lightning and accelerate"),
    "fp8": Step("fp8:fp8", 480, "FP8 over BF16 in linear layers and in a language model; needs torchao"),
    "tax": Step("tax:tax", 180, "what the telemetry costs, part by part, and how often the host waits"),
    "window": Step("tax:window", 400, "what the live window costs at 30 Hz"),
    "limit": Step("memory:limit", 420, "the largest batch of ResNet-50 under 24 GiB"),
    "ooms": Step("memory:ooms", 180, "200 out-of-memory errors in one worker"),
    "forecast": Step("memory:forecast", 500, "forecasts beside the allocator, model after model"),
    "profile": Step(
        "profile:profiles", 480, "bars, unnamed kernels, % of measured peak, and the tests of profiles"
    ),
    "numerics": Step("numerics:numerics", 300, "the map and the ranges of ResNet-50, planted faults"),
    "energy": Step("energy:energy", 90, "the counter of energy beside the sensor of power"),
    "tune": Step("tune:tune", 520, "Tuning beside every combination"),
    "show": Step("show:show", 300, "*Run demo*, its pages, the replay and the exports"),
}
"""By name; `speed` is followed by the name of a workload."""

"""How far forecasts are off: ten models, before anything was measured, and after one run of another batch.

    uv run python tests/benchmarks/forecast.py [--device cpu] [--model resnet50] [--precision fp16]
        [--seconds 300]

Each model is forecast, trained for a few steps at one batch, forecast again for twice the batch, and trained
at that. On a CUDA card the measured figure is the training peak of what the allocator gave out. On a CPU it
is the process's resident memory over its idle level, which also has the libraries' own code in it. The aim is
to be within 10%.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from within import within

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import ProblemError
from engine.protocol.events import Failed, Finished
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher

MODELS = (
    "resnet18",
    "resnet50",
    "densenet121",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "vgg16",
    "convnext_tiny",
    "swin_t",
    "vit_b_16",
    "causal-lm-small",
)
_STEPS, _WARMUP_STEPS = 8, 4
_AIM = 0.10


def experiments(model: str, precision: str, device: str) -> tuple[Experiment, Experiment]:
    """The model at a batch and at twice that, small enough for a laptop where the device is a CPU."""
    is_small, is_text = device == "cpu", model.startswith("causal-lm")
    batch_size = 4 if is_small or is_text else 32
    settings = {
        "model": model,
        "dataset": "synthetic-tokens" if is_text else "synthetic",
        "precision": precision,
        "device": device,
        "image_size": None if is_text else 96 if is_small and not model.startswith("vit") else 224,
        "sequence_length": 128 if is_small else 512,
        "samples": 4 * batch_size * _STEPS,
        "steps": _STEPS,
        "measure": {"warmup_steps": _WARMUP_STEPS, "block_steps": 1},
    }
    first = experiment_from({**settings, "batch_size": batch_size})
    return first, first.model_copy(update={"batch_size": 2 * batch_size})


def measured_mib(runner: Runner, store: Store, experiment: Experiment) -> float:
    """The training peak of one run. Raises ProblemError where it failed."""
    last = list(runner.run(store.add(experiment).id))[-1]
    if isinstance(last, Failed):
        raise ProblemError(last.problem)
    assert isinstance(last, Finished)
    peak = last.summary.peak_allocated_mib or last.summary.peak_resident_mib
    assert peak is not None, "this device does not tell"
    return peak


def errors(runner: Runner, store: Store, model: str, precision: str, device: str) -> tuple[float, float]:
    """The relative errors at the first batch, uncorrected, and at the second, corrected by the first."""
    found = []
    for experiment in experiments(model, precision, device):
        forecast = runner.forecast(experiment)
        peak = measured_mib(runner, store, experiment)
        found.append(forecast.needed_mib / peak - 1)
        print(
            f"{model:<20}{precision:<6}{experiment.batch_size:>6}{forecast.needed_mib:>12,.0f}{peak:>12,.0f}"
            f"{found[-1]:>+9.1%}{forecast.seconds:>9.1f}",
            flush=True,
        )
    return found[0], found[1]


def all_errors(options: argparse.Namespace, folder: Path) -> Iterator[tuple[float, float]]:
    with Store(folder / "forecasts.db") as store, Launcher() as launcher:
        runner = Runner(store, launcher)
        for model in within((options.model,) if options.model else MODELS, options.seconds):
            for precision in options.precision:
                try:
                    yield errors(runner, store, model, precision, options.device)
                except ProblemError as error:
                    print(f"{model:<20}{precision:<6}  {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", "--only", help="one alone, also another than the ten")
    parser.add_argument("--precision", action="append", help="repeatable")
    parser.add_argument("--seconds", type=float, help="no model begins after so many")
    options = parser.parse_args()
    options.precision = options.precision or ["fp32", "bf16" if options.device == "cpu" else "fp16"]
    print(f"{'model':<26}{'batch':>6}{'forecast':>12}{'measured':>12}{'error':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        found = list(all_errors(options, Path(folder)))
    for what, column in (("before any run", 0), ("after a run of half the batch", 1)):
        sizes = [abs(pair[column]) for pair in found]
        if sizes:
            within = sum(size <= _AIM for size in sizes)
            print(
                f"{what}: median {statistics.median(sizes):.1%}, largest {max(sizes):.1%}, "
                f"within {_AIM:.0%}: {within} of {len(sizes)}"
            )


if __name__ == "__main__":
    main()

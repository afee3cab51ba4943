"""Memory on the GPU: the largest batch, memory held after out-of-memory errors, and forecasts."""

from __future__ import annotations

import time

import limit as benchmark

from day.work import StepError, Work
from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.problem import ProblemError
from engine.limit.driver import LimitDriver
from engine.protocol.events import Failed, Finished
from engine.protocol.trials import LimitResult, Tried
from engine.runner import Runner
from engine.store.store import Store

_CAP_GIB = 24.0
_MODELS = (
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


def limit(work: Work) -> None:
    """Search ResNet-50's largest batch under a cap, plain in two precisions, then captured."""
    model, size = work.small(("resnet50", 224), ("small-cnn", 28))
    base = {
        "model": model,
        "dataset": "synthetic",
        "image_size": size,
        "num_classes": 1_000,
        "samples": 1_000_000,
        "steps": 20,
        "batch_size": 1,
        "memory_cap_gib": work.small(_CAP_GIB, 0.25),
        "device": work.device,
    }
    cases = [("fp32", "plain"), ("fp16", "plain"), ("fp16", "fused+capture"), ("fp32", "fused+capture")]
    with _store(work) as store, work.launcher() as launcher:
        driver = LimitDriver(store, launcher, Runner(store, launcher).catalog())
        for precision, recipe in work.small(cases, cases[:1]):
            # captured, the trials that verify the answer take 18 s each
            if not work.has_time(40 if recipe == "plain" else 120, f"{precision} {recipe}"):
                continue
            asked = experiment_from(layered(base, {"precision": precision, "step": {"recipe": recipe}}))
            result = benchmark.search(driver, asked, work.small(work.left - 20, 0.0))
            print(f"{precision}, {recipe}")
            benchmark.show(result)
            if recipe == "plain":
                _tell_limit(work, precision, result)
    if work.is_rehearsal:
        # a search on a CPU takes a process for each trial: one tells what two have to tell
        _tell_limit(work, "fp16", result)


def _tell_limit(work: Work, precision: str, result: LimitResult) -> None:
    verified = "proven" if result.verified else "NOT proven"
    tried = ", ".join(f"{each.batch_size:,}{'' if each.fits else ' x'}" for each in result.trials)
    work.report(
        f"limit-{precision}", result.largest_batch, f"({verified}, peak {result.peak_mib or 0:,.0f} MiB)"
    )
    work.report(f"limit-{precision}-trials", len(result.trials), f"({tried})")
    work.report(f"limit-{precision}-seconds", result.seconds)


def ooms(work: Work) -> None:
    """Make one worker run out of memory 200 times, half of them in a captured step."""
    changed: list[bool] = []
    grew: list[float] = []
    count, failures = work.small(100, 1), 0
    recipes = work.small(("plain", "fused+capture"), ("plain",))
    for number, recipe in enumerate(recipes, 1):
        base = {
            "model": "small-cnn",
            "dataset": "synthetic",
            "image_size": 64,
            "num_classes": 10,
            "samples": 1_000_000,
            "steps": 20,
            "batch_size": 1,
            "memory_cap_gib": work.small(1.0, 0.125),
            "device": work.device,
            "step": {"recipe": recipe},
        }
        with work.launcher() as launcher:
            until = work.began + 0.9 * work.seconds * number / len(recipes)
            process = benchmark.OneProcess(launcher, experiment_from(base))
            try:
                fits, fails = _answer(work, process, f"{recipe}, before")
                told: list[Tried] = []
                began = time.perf_counter()
                while len(told) < count and (not told or time.monotonic() < until):
                    told.append(process.tried((fails, 2 * fails)[len(told) % 2]))
                benchmark.show_baselines(told, f"{recipe}: fails and twice that", time.perf_counter() - began)
                changed.append(not process.tried(fits).trial.fits or process.tried(fails).trial.fits)
            finally:
                process.close()
        failures += sum(not each.trial.fits for each in told)
        grew.append(told[-1].baseline_mib - told[0].baseline_mib)
    work.report("ooms-answer", sum(changed), f"{failures:,} errors, {', '.join(recipes)}")
    work.report("ooms-held", max(grew), f"{failures:,} errors, {', '.join(recipes)}")


def _answer(work: Work, process: benchmark.OneProcess, label: str) -> tuple[int, int]:
    """Return the largest batch that fits, and the smallest that does not; in a rehearsal constants."""
    if work.is_rehearsal:
        process.tried(1)
        return 1, 50_000
    return process.answer(label)


def forecast(work: Work) -> None:
    """Compare forecasts of ten models, before any run and after one of half the batch, with measurements."""
    models = work.small(_MODELS, ("small-cnn",))
    errors: dict[str, tuple[float, float]] = {}
    longest = 0.0
    with _store(work) as store, work.launcher() as launcher:
        runner = Runner(store, launcher)
        for model in models:
            for precision in work.small(("fp32", "fp16"), ("fp32",)):
                if not work.has_time(longest + 20, f"{model} in {precision}"):
                    continue
                began = time.monotonic()
                try:
                    errors[f"{model} in {precision}"] = _errors(runner, store, model, precision, work.device)
                except ProblemError as error:
                    print(f"{model} in {precision}: {error}", flush=True)
                longest = max(longest, time.monotonic() - began)
    if not errors:
        raise StepError("no model was measured")
    for key, column in (("forecast-before", 0), ("forecast-after", 1)):
        off, name = max((abs(error[column]), name) for name, error in errors.items())
        work.report(key, 100 * off, f"({name}; {len(errors)} of {2 * len(models)} measured)")


def _experiments(model: str, precision: str, device: str) -> tuple[Experiment, Experiment]:
    """Return the model at a batch and at twice that."""
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


def _measured_mib(runner: Runner, store: Store, experiment: Experiment) -> float:
    """Return the peak memory of one run. Raises ProblemError if it failed."""
    last = list(runner.run(store.add(experiment).id))[-1]
    if isinstance(last, Failed):
        raise ProblemError(last.problem)
    assert isinstance(last, Finished)
    peak = last.summary.peak_allocated_mib or last.summary.peak_resident_mib
    assert peak is not None, "this device does not tell"
    return peak


def _errors(runner: Runner, store: Store, model: str, precision: str, device: str) -> tuple[float, float]:
    """Return the relative errors at the first batch, and at the second, corrected by the first run."""
    found = []
    for experiment in _experiments(model, precision, device):
        forecast = runner.forecast(experiment)
        peak = _measured_mib(runner, store, experiment)
        found.append(forecast.needed_mib / peak - 1)
        print(
            f"{model:<20}{precision:<6}{experiment.batch_size:>6}{forecast.needed_mib:>12,.0f}{peak:>12,.0f}"
            f"{found[-1]:>+9.1%}{forecast.seconds:>9.1f}",
            flush=True,
        )
    return found[0], found[1]


def _store(work: Work) -> Store:
    """Return a new store, without the measurements of earlier steps."""
    return Store(work.told.parent / f"{work.name}.sqlite")

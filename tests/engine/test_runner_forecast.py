"""What the runner does beside training: it forecasts, checks before a run, and advises after a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.compare.failure import fitting_batch, with_accumulation
from engine.experiment.experiment import Experiment, changed, experiment_from
from engine.experiment.own.code import Code, with_code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName, Summary
from engine.protocol.trials import MemoryLine
from engine.runner import MemoryAdvice, Precheck, Runner, crashed
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

SMALL = experiment_from(
    {
        "model": "small-cnn",
        "dataset": "synthetic",
        "image_size": 32,
        "num_classes": 10,
        "batch_size": 8,
        "samples": 64,
        "steps": 2,
        "device": "cpu",
        "measure": {"warmup_steps": 1, "block_steps": 1},
        "validation": {"every": 0},
    }
)


def test_a_known_forecast_needs_no_worker(store, launcher):
    made = Runner(store, launcher).forecast(SMALL)
    assert made.needed_mib > made.parameters_mib > 0
    nobody = Launcher(command=("no-such-program",))
    known = Runner(store, nobody).forecast(SMALL.model_copy(update={"batch_size": 64}))
    assert known.experiment.batch_size == 64
    assert known.needed_mib > made.needed_mib


def test_a_forecast_is_refused_while_a_run_is_measured(store):
    runner = Runner(store, Launcher(Target.THREAD))
    events = runner.run(store.add(SMALL.model_copy(update={"steps": 100_000_000})).id)
    next(events)
    with pytest.raises(ProblemError) as raised:
        runner.forecast(SMALL)
    events.close()
    assert "during a measurement" in raised.value.problem.message


def test_a_finished_run_corrects_the_forecast(store, launcher):
    runner = Runner(store, launcher)
    runner.forecast(SMALL)
    last = list(runner.run(store.add(SMALL).id))[-1]
    assert isinstance(last, Finished)
    peak = last.summary.peak_resident_mib
    assert peak is not None
    assert runner.forecast(SMALL).needed_mib == pytest.approx(peak)


def test_a_script_takes_no_place_among_the_peaks_of_forecasts(tmp_path):
    forecasts, finished = Forecasts(tmp_path), Finished(summary=Summary(peak_resident_mib=90.0))
    for experiment in (SMALL, changed(SMALL, {"command.line": "python train.py"})):
        MemoryAdvice(experiment, forecasts).with_remedy(finished)
        assert bool(forecasts.peaks(experiment)) is not experiment.is_script


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")
def test_an_out_of_memory_names_the_batch_that_fits(store, launcher):
    runner = Runner(store, launcher)
    too_large = SMALL.model_copy(update={"batch_size": 4_096, "samples": 8_192, "memory_cap_gib": 0.5})
    runner.forecast(too_large)
    record = store.add(too_large)
    last = list(runner.run(record.id))[-1]
    assert isinstance(last, Failed) and last.problem.kind is Kind.OUT_OF_MEMORY
    assert "is estimated to fit" in last.problem.remedy
    saved = store.run(record.id).problem
    assert saved == last.problem
    assert (
        saved.allowed is not None and 0 < int(saved.allowed.removeprefix("at most ").replace(",", "")) < 4_096
    )


def test_an_out_of_memory_without_a_forecast_keeps_its_own_remedy(store, scripted):
    problem = "dict(kind='out-of-memory', message='It ran out.', remedy='Take a smaller batch.')"
    launcher = scripted(f"say(event='failed', problem={problem})")
    last = list(Runner(store, launcher).run(store.add(SMALL).id))[-1]
    assert isinstance(last, Failed) and last.problem.kind is Kind.OUT_OF_MEMORY
    assert last.problem.remedy == "Take a smaller batch."


CODE = Code(file="net.py", folder="/work", text="def model(): ...\ndef batch(size): ...\n").to_json()
OWN = experiment_from({"model": "net.py", "code": CODE, "dataset": "own"})
WARNING = Finding(
    kind=FindingKind.WAITS, severity="warning", message="It waits.", remedy="Do not.", file="net.py", line=3
)
ERROR = Finding(
    kind=FindingKind.RAISES, severity="error", message="It raises.", remedy="Mend it.", detail="trace"
)
EMULATED = Finding(kind=FindingKind.EMULATED, severity="warning", message="Slow.", remedy="Another.")


class Checks:
    """Answers with what it was given, and keeps what it was asked."""

    def __init__(self, answer: Checked | ProblemError) -> None:
        self.answer = answer
        self.asked: list[Experiment] = []

    def __call__(self, experiment: Experiment) -> Checked:
        self.asked.append(experiment)
        if isinstance(self.answer, ProblemError):
            raise self.answer
        return self.answer


def test_a_warning_is_logged_with_its_place_and_checked_once() -> None:
    checks = Checks(Checked(findings=(WARNING, EMULATED)))
    precheck = Precheck(checks)
    for seed in (1, 2):
        (log,) = precheck.remarks(OWN.model_copy(update={"seed": seed}))
        assert (log.level, log.message) == ("warning", "net.py:3: It waits. Do not.")
    assert len(checks.asked) == 1
    for count, other in enumerate(
        ({"precision": "bf16"}, {"devices": 2}, {"ranks": {"static_graph": True}}), 2
    ):
        precheck.remarks(experiment_from({**OWN.model_dump(), **other}))
        assert len(checks.asked) == count


def test_an_error_refuses_the_run_with_its_trace_and_is_looked_for_again() -> None:
    checks = Checks(Checked(findings=(ERROR, WARNING)))
    precheck = Precheck(checks)
    for _ in range(2):
        refused = precheck.remarks(OWN)
        assert isinstance(refused, Failed) and refused.problem.kind is Kind.REQUEST
        assert refused.problem.message == "It raises." and refused.detail == "trace"
    assert len(checks.asked) == 2


@pytest.mark.parametrize("kind", [Kind.WORKER_DIED, Kind.HANG])
def test_a_crash_is_a_finding_with_the_line_that_it_came_from(kind: Kind) -> None:
    problem = Problem(kind=kind, message="It died.", remedy="Look.")
    died = Failed(problem=problem, detail="stack", file="net.py", line=7)
    checked = crashed(OWN, died)
    assert checked is not None and checked.errors[0].place == "net.py:7"
    assert "It died." in checked.errors[0].message and checked.errors[0].detail == "stack"
    assert crashed(Experiment(), died) is None
    lacking = Problem(kind=Kind.OUT_OF_MEMORY, message="No memory.", remedy="")
    assert crashed(OWN, Failed(problem=lacking)) is None


def test_a_check_that_lacks_memory_does_not_refuse_the_run() -> None:
    lacking = ProblemError(Problem(kind=Kind.OUT_OF_MEMORY, message="No memory.", remedy=""))
    (log,) = Precheck(Checks(lacking)).remarks(OWN)
    assert "not checked" in log.message


def test_models_of_the_catalog_are_not_checked() -> None:
    assert Precheck.applies_to(OWN)
    assert Precheck.applies_to(experiment_from({"model": "timm:resnet18"}))
    assert not Precheck.applies_to(Experiment())


LINES = [MemoryLine(fixed_mib=500, per_sample_mib=10)]
EXPERIMENT = experiment_from({"batch_size": 96, "step": {"gradient_accumulation": 2}})
PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower it.")


@pytest.mark.parametrize(
    ("budget_mib", "failed", "fits"),
    # with room in the budget; less than the forecast promised where that was wrong; none for a single sample
    [(1_000, 96, 45), (100_000, 96, 86), (500, 96, None), (5_000, 1, None)],
)
def test_the_batch_that_fits(budget_mib: float, failed: int, fits: int | None) -> None:
    assert fitting_batch(LINES, budget_mib, failed_batch=failed) == fits


def test_accumulation_keeps_the_samples_of_a_step():
    accumulated = with_accumulation(EXPERIMENT, 40)
    assert accumulated is not None
    assert (accumulated.batch_size, accumulated.step.gradient_accumulation) == (32, 6)
    assert accumulated.step_samples == EXPERIMENT.step_samples
    assert with_accumulation(experiment_from({"batch_size": 97}), 60) is None, "a prime number of samples"


NET = """
import ctypes, sys, torch
from torch import nn

class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x)

def model():
    return Net(4, 4)

def batch(size):
    return torch.randn(size, 4), torch.randn(size, 4)
"""
FORWARD = "return super().forward(x)"
SHORT_RUN = {"batch_size": 4, "samples": 8, "steps": 2, "device": "cpu"}


def own_experiment(store: Store, folder: Path, text: str) -> Experiment:
    path = folder / "net.py"
    path.write_text(text, encoding="utf-8")
    asked = {**SHORT_RUN, "model": str(path)}
    experiment = experiment_from(with_code(asked, names_model=True, names_dataset=False))
    assert experiment.own_code is not None
    TrustedCode().add(experiment.own_code)
    return experiment


def trained(store: Store, launcher, folder: Path, text: str) -> list[Event]:
    experiment = own_experiment(store, folder, text)
    return list(Runner(store, launcher).run(store.add(experiment).id))


@pytest.mark.parametrize("mistake", ["sys.exit(0)", "ctypes.string_at(0)"])
def test_a_file_that_exits_or_crashes_ends_alone_and_leaves_nothing(
    store, launcher, tmp_path, mistake
) -> None:
    first, last = trained(store, launcher, tmp_path, NET.replace(FORWARD, f"{mistake}; {FORWARD}"))
    assert isinstance(first, Phase) and first.name is PhaseName.CHECKING
    assert isinstance(last, Failed) and last.problem.kind is Kind.REQUEST
    line = NET.splitlines().index(f"        {FORWARD}") + 1
    assert last.problem.message.startswith(f"net.py:{line}:")
    assert store.runs() == ()


def test_a_file_that_prints_a_lot_is_trained_with_its_warning_logged(store, launcher, tmp_path) -> None:
    noisy = "print('x' * 1_000_000); x.sum().item()"
    *events, last = trained(store, launcher, tmp_path, NET.replace(FORWARD, f"{noisy}; {FORWARD}"))
    assert isinstance(last, Finished)
    (warning,) = [event for event in events if isinstance(event, Log) and event.level == "warning"]
    assert warning.message.startswith("net.py:7:") and "item" in warning.message

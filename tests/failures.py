"""Failed comparisons: runs of a store that ended with a problem, and forecasts of their memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.compare.failure import Failure, failure_of
from engine.experiment.experiment import Experiment, changed, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem, request_problem
from engine.protocol.events import Environment, Event, Failed, Finished, Started, Summary
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.training.failures import memory_cap_problem, not_a_number
from engine.worker.supervision import death_problem
from tests.forecasts import forecast_made

GPU = Environment(
    device_name="NVIDIA GeForce RTX 4090",
    device_memory_mib=24_564.0,
    torch="2.11",
    python="3.12",
    os="Linux",
    ammeter="0.1",
)
OUT_OF_MEMORY = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower Batch size."
)
RESNET = experiment_from(
    {"model": "resnet50", "dataset": "synthetic", "precision": "fp32", "device": "cuda", "batch_size": 2_000}
)
PRECISIONS = ("fp32", "bf16", "fp16", "tf32", "bf16-pure")
NEEDS = {"fp32": 6.6, "bf16": 3.8, "fp16": 3.9, "tf32": 6.6, "bf16-pure": 3.1}
"""MiB of a sample."""
TRACE = """Traceback (most recent call last):
  File "torch/nn/modules/module.py", line 1790, in _call_impl
  File "torchvision/models/resnet.py", line 146, in forward
    out = self.conv2(out)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 502.00 MiB.
GPU 0 has a total capacity of 23.99 GiB. Of the allocated memory 1003.00 MiB is allocated by PyTorch.
"""


def cap_problem(experiment: Experiment) -> Problem:
    """Return the out-of-memory problem of an experiment, which names its cap if it has one."""
    return memory_cap_problem(OUT_OF_MEMORY, experiment.memory_cap_gib)


CAPPED = changed(RESNET, {"memory_cap_gib": 1.0})
LARGE = changed(RESNET, {"batch_size": 8_000})
SAVING = changed(RESNET, {"checkpoint.last": True})
NAN = changed(RESNET, {"on_nan": "fail", "batch_size": 64})
NET = "\n".join(("class Net(nn.Module):", "    def forward(self, x):", "        return self.head(x)"))
CASES = ("cap", "gpu", "unknown", "five", "nan", "model", "disk", "crash", "loader")
"""The kinds of failure, each with remedies of its own."""


class Failures:
    """Makes runs in a store, of which some have failed."""

    def __init__(self, store: Store, home: Path) -> None:
        self.store, self.forecasts = store, Forecasts(home)

    def compared(
        self,
        problem: Problem | None,
        base: Experiment = RESNET,
        *,
        precisions: Sequence[str] = PRECISIONS[:2],
        failed: str = "fp32",
        detail: str = TRACE,
        estimated: bool = True,
        finished: Sequence[str] = (),
    ) -> tuple[RunRecord, ...]:
        """Return the runs of a comparison in which one precision failed. Others `finished` or wait."""
        comparison = self.store.add_comparison("compared") if len(precisions) > 1 else None
        ids = []
        for name in precisions:
            experiment = changed(base, {"precision": name})
            if estimated:
                self.estimate(experiment, name)
            label = experiment.precision.label
            run = self.store.add(experiment, comparison=comparison, label=label if comparison else None)
            ids.append(run.id)
            if name != failed and name not in finished:
                continue
            self.store.begin(run.id)
            events: list[Event] = [
                Started(
                    experiment=experiment,
                    environment=GPU,
                    total_steps=200,
                    steps_per_epoch=100,
                    parameters=25_600_000,
                    loss_name="cross-entropy",
                    loss_unit="nats",
                )
            ]
            if name == failed:
                assert problem is not None
                events.append(Failed(problem=problem, detail=detail))
            else:
                summary = Summary(steps=200, samples_per_second=1_280.0, peak_allocated_mib=7_900.0)
                events.append(Finished(summary=summary))
            self.store.record(run.id, events)
        return tuple(self.store.run(run_id) for run_id in ids)

    def case(self, name: str, folder: Path) -> tuple[RunRecord, ...]:
        """Return the runs of one of the `CASES`. `folder` has the model file."""
        match name:
            case "cap":
                return self.compared(cap_problem(CAPPED), CAPPED)
            case "gpu":
                return self.compared(OUT_OF_MEMORY, LARGE)
            case "unknown":
                return self.compared(OUT_OF_MEMORY, LARGE, precisions=("fp32",), estimated=False)
            case "five":
                return self.compared(OUT_OF_MEMORY, LARGE, precisions=PRECISIONS, finished=PRECISIONS[1:3])
            case "nan":
                sides = {"precisions": ("fp32", "fp16"), "failed": "fp16", "finished": ("fp32",)}
                return self.compared(not_a_number(12), NAN, detail="", **sides)
            case "model":
                (folder / "net.py").write_text(NET)
                code = Code(file="net.py", folder=str(folder), text=NET)
                own = experiment_from(
                    {"model": "net.py:Net", "dataset": "synthetic", "code": code.to_json(), "device": "cuda"}
                )
                message = "net.py, line 3, in forward: head takes 64 features, but its input has 3,136."
                problem = request_problem(message, "Write nn.Linear(3136, 10) there.")
                trace = f'Traceback:\n  File "{folder}/net.py", line 3, in forward\nRuntimeError: shapes\n'
                return self.compared(problem, own, detail=trace, estimated=False)
            case "disk":
                problem = Problem(kind=Kind.DISK_FULL, message="The disk is full.", remedy="Free some space.")
                return self.compared(problem, SAVING, detail="", finished=("bf16",))
            case "crash":
                return self.compared(death_problem(-9), detail="last words")
            case _:
                loader = {"message": "A loader process ended during the run.", "key": "data.workers"}
                problem = Problem(kind=Kind.WORKER_DIED, remedy="Lower Loader workers.", **loader)
                return self.compared(problem, changed(RESNET, {"data.workers": 4}), detail="")

    def estimate(self, experiment: Experiment, name: str) -> None:
        """Keep a forecast of the experiment's memory, and two measured peaks."""
        self.forecasts.keep(experiment, forecast_made(experiment, 310.0, NEEDS[name], "allocated"))
        for batch in (8, 32):
            self.forecasts.learn(experiment, batch, 310.0 + NEEDS[name] * batch, "allocated")

    def read(self, runs: Sequence[RunRecord], steps: int | None = 0) -> Failure:
        """Return why they failed."""
        known = {} if steps is None else {run.id: steps for run in runs}
        failure = failure_of(runs, self.forecasts, None, known)
        assert failure is not None
        return failure

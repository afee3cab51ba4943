"""What the processes of a run share: samples, gradients, buffers, and how long that takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch._C._distributed_c10d import FileStore

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.training import ranks as module
from engine.training.failures import problem_of
from engine.training.profile.communication import measure_bus_bandwidth
from engine.training.ranks import (
    SAMPLED_FIRST,
    DistributedModel,
    Rank,
    average_gradients,
    broadcast_buffers,
    rank_indices,
    typical_times,
)
from engine.training.runs.checkpoints import Checkpoints
from engine.training.steps.compiled import CompiledStep
from engine.training.steps.plain import PlainStep, RecipeRecord

LIKE_MOST = [(2.0, 0.5)] * SAMPLED_FIRST


@pytest.mark.parametrize(
    ("samples", "usual"),
    [
        ([*LIKE_MOST[:-1], (500.0, 500.0)], (2.0, 0.5)),
        # ranks wait for one that began later
        ([(900.0, 900.0), *LIKE_MOST], (2.0, 0.5)),
        ([(9.0, 9.0)] * 5 + [(2.0, 1.0)] * 5, (2.0, 1.0)),
        # no longer than the step
        ([(30.0, 20.0)], (10.0, 10.0)),
        ([], None),
    ],
)
def test_the_usual_times_are_those_of_most_later_steps(samples: Any, usual: Any) -> None:
    assert typical_times(samples, 10.0) == usual


class Heads(nn.Module):
    """A body with two heads, of which each forward pass uses one."""

    def __init__(self, turns: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        self.turns = iter(turns)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        head: nn.Module = getattr(self, next(self.turns))
        outputs: torch.Tensor = head(self.body(inputs))
        return outputs


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone, in which DistributedDataParallel is as particular as in any."""
    store = FileStore(str(tmp_path / "meeting"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def step_of(
    model: nn.Module, *, is_shared: bool = True, kind: type[PlainStep] = PlainStep, **settings: Any
) -> PlainStep:
    class Alone(kind):  # type: ignore[misc, valid-type]
        def _shared(self, experiment: Any) -> nn.Module:
            return DistributedModel(self.model, experiment, self.device) if is_shared else self.model

    experiment = experiment_from({"devices": 2, **settings})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    parts: dict[str, Any] = {"optimizer": optimizer, "record": RecipeRecord(experiment.step.parts)}
    return Alone(model, nn.functional.mse_loss, experiment, torch.device("cpu"), **parts)


def trained(step: PlainStep, steps: int, batches: int = 1) -> list[torch.Tensor]:
    for number in range(steps):
        torch.manual_seed(number)
        step([(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(batches)])
    return [parameter.detach() for parameter in step.model.parameters()]


@pytest.mark.parametrize(
    ("turns", "ranks", "batches", "steps", "words"),
    [
        ("aaa", {}, 1, 1, "The parameter b.weight, like 1 more, gets no gradient in this step."),
        # both heads have a gradient in each step, but DistributedDataParallel wants it from the last batch
        ("abab", {}, 2, 1, "The parameter a.weight, like 1 more, gets no gradient in this step."),
        ("abab", {"static_graph": True}, 1, 2, "The model used other parameters in this step than in the"),
    ],
)
def test_a_step_that_leaves_parameters_out_is_refused_with_their_names(
    group: None, turns: str, ranks: dict[str, bool], batches: int, steps: int, words: str
) -> None:
    step = step_of(Heads(turns), ranks=ranks)
    trained(step, steps - 1, batches)
    with pytest.raises(Exception) as caught:
        trained(step, 1, batches)
    problem: Problem = problem_of(caught.value)
    assert problem.kind is Kind.REQUEST and problem.message.startswith(words)
    assert "ranks.find_unused_parameters" in f"{problem.key} {problem.remedy}"


def test_a_parameter_that_is_frozen_during_the_run_is_named(group: None) -> None:
    model = Heads("aaa")
    del model.b
    step = step_of(model)
    trained(step, 1)
    model.body.weight.requires_grad = False
    with pytest.raises(ProblemError, match=r"The parameter body\.weight gets no gradient in this step"):
        trained(step, 1)


@pytest.mark.parametrize(
    ("turns", "ranks", "batches"),
    [
        ("aaaaaa", {"static_graph": True}, 1),
        *(
            (turns, {"find_unused_parameters": True}, count)
            for turns in ("aaaaaa", "abbaba")
            for count in (1, 2)
        ),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_found_unused_parameters_are_trained_as_on_one_device(
    group: None, turns: str, ranks: dict[str, bool], batches: int, precision: str
) -> None:
    steps = len(turns) // batches
    alone = trained(step_of(Heads(turns), precision=precision, is_shared=False), steps, batches)
    shared = trained(step_of(Heads(turns), precision=precision, ranks=ranks), steps, batches)
    for own, other in zip(alone, shared, strict=True):
        assert torch.equal(own, other)


def test_a_forward_that_goes_around_the_models_own_is_refused(group: None) -> None:
    """DistributedDataParallel would never send its gradients: each device would train a model of its own."""

    def around(model: Any, inputs: torch.Tensor) -> Any:
        return model.b(model.a.weight * model.body(inputs))

    step = step_of(Heads("aa"))
    step._call = around
    with pytest.raises(Exception, match="calls parts of the model, not the model itself"):
        trained(step, 2)


@pytest.mark.parametrize("sent", [False, True])
def test_a_compilation_that_fails_sends_no_gradient_twice(
    group: None, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    """The other devices, on which it goes well, would take them for those of the next step."""

    class Failing(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: torch.Tensor) -> Any:
            outputs = self.model(inputs) if sent else torch.ones(2, 1, requires_grad=True)
            outputs.register_hook(lambda gradient: failures.append("no compiler") if sent else 1 / 0)
            return outputs

    failures: list[str] = []

    def waited_for(device: torch.device) -> None:
        if failures:
            raise RuntimeError(failures.pop())

    monkeypatch.setattr(torch, "compile", lambda model, **settings: Failing(model))
    monkeypatch.setattr("engine.training.steps.compiled.synchronize", waited_for)
    ranks = {"find_unused_parameters": True}
    step = step_of(Heads("aaa"), kind=CompiledStep, step={"recipe": "compile"}, ranks=ranks)
    if sent:
        with pytest.raises(ProblemError, match="gradients were sent to other devices: no compiler"):
            trained(step, 1)
    else:
        trained(step, 2)
        assert "division by zero" in step.record.left_out["compile"]


class Buffers(nn.Module):
    """Buffers in every layout, of which each process has its own values."""

    def __init__(self, value: float) -> None:
        super().__init__()
        image = torch.full((2, 3, 4, 4), value)
        self.register_buffer("plain", image.clone())
        self.register_buffer("channels_last", image.to(memory_format=torch.channels_last))
        self.register_buffer("transposed", torch.full((2, 3), value).t())
        self.register_buffer("sliced", torch.full((4, 4), value)[:, ::2])
        self.register_buffer("expanded", torch.zeros(1).expand(8))


def as_rank(rank: int, meeting: str) -> None:
    distributed.init_process_group("gloo", store=FileStore(meeting, 2), rank=rank, world_size=2)
    model = Buffers(rank)
    broadcast_buffers(model)
    assert all(not buffer.any() for buffer in model.buffers())
    both, mine, none = (nn.Parameter(torch.ones(2)) for _ in range(3))
    both.grad = torch.full((2,), float(rank))
    mine.grad = torch.full((2,), 3.0) if rank else None
    average_gradients([both, mine, none])
    assert (both.grad == 0.5).all() and mine.grad is not None and (mine.grad == 1.5).all()
    # as on one device, where an optimizer leaves it as it is
    assert none.grad is None
    largest = measure_bus_bandwidth(torch.device("cpu"))[-1]
    assert largest.size <= 2**26 and largest.gb_per_second > 0
    # as a worker ends: gloo's threads outlive the interpreter, and one that then wants its lock aborts
    os._exit(0)


def test_two_processes_have_the_same_buffers_and_mean_gradients(tmp_path: Path, start_script: Any) -> None:
    started = []
    for rank in range(2):
        script = tmp_path / f"rank{rank}.py"
        script.write_text(
            f"from {as_rank.__module__} import as_rank; as_rank({rank}, {str(tmp_path / 'meeting')!r})"
        )
        started.append(start_script(script, dict(os.environ)))
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert [process.wait() for process in started] == [0, 0], errors


def shares(monkeypatch: pytest.MonkeyPatch, samples: int, batch_size: int, ranks: int) -> list[list[int]]:
    result = []
    for rank in range(ranks):
        monkeypatch.setattr(module, "current_rank", lambda rank=rank: Rank(rank, ranks))
        result.append(rank_indices(torch.arange(samples), batch_size).tolist())
    return result


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 4, 7])
@pytest.mark.parametrize("samples", [8, 24, 57, 200])
def test_the_ranks_batches_are_the_parts_of_a_global_batch(
    monkeypatch: pytest.MonkeyPatch, samples: int, batch_size: int, ranks: int
) -> None:
    parts = shares(monkeypatch, samples, batch_size, ranks)
    kept = samples // ranks * ranks
    together = []
    for start in range(0, kept // ranks, batch_size):
        batches = [part[start : start + batch_size] for part in parts]
        assert len({len(batch) for batch in batches}) == 1
        together.append(sorted(sample for batch in batches for sample in batch))
    whole = batch_size * ranks
    assert together == [list(range(start, min(start + whole, kept))) for start in range(0, kept, whole)]


def test_a_rank_keeps_its_own_random_state_beside_the_first_ones_checkpoint(tmp_path: Path) -> None:
    def state(steps: int, number: float) -> dict[str, object]:
        value = torch.tensor(number)
        parts = {"model": {"weight": value}, "optimizer": {"weight": value}, "random": {"cpu": value}}
        return {**parts, "scaler": {}, "progress": {"tally": {"steps": steps}}}

    first, second = Checkpoints(tmp_path), Checkpoints(tmp_path, 1)
    first.save("last", state(5, 1.0))
    second.save("last", state(5, 2.0))
    loaded = second.load("last")
    assert loaded["model"]["weight"] == 1.0 and loaded["random"]["cpu"] == 2.0
    assert first.load("last")["random"]["cpu"] == 1.0
    # killed between the two files: what is left is of another step
    first.save("last", state(6, 3.0))
    assert second.load("last")["random"]["cpu"] == 3.0

"""The compiled step: the same training, and no trace of a compilation that failed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo.utils
import torch._inductor.config
from torch import nn
from torch.nn.functional import mse_loss

from engine.experiment.experiment import Experiment
from engine.protocol.events import Log, PhaseName
from engine.training.data.batches import cut_batches, generated_samples
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step
from tests.engine.training.conftest import OwnRuns, line_of

CPU = torch.device("cpu")
# torch 2.11 uses what it deprecates as it loads its compiler
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


class Normed(nn.Module):
    """Small, with everything that a failed pass could leave traces in: running means and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.5)
        self.last = nn.Linear(8, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.last(self.dropout(self.norm(self.first(inputs))))
        return outputs


def step_of(recipe: str, *, dropout: float = 0.5, **settings: Any) -> PlainStep:
    torch.manual_seed(0)
    model = Normed()
    model.dropout.p = dropout
    # SGD: Adam would blow up the rounding errors in the first bias, whose gradient BatchNorm makes zero.
    sgd = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9}
    experiment = Experiment.model_validate({"step": {"recipe": recipe, **settings}, "optimizer": sgd})
    return build_step(model, mse_loss, experiment, CPU, is_convolutional=False)


def batch(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 6, generator=generator), torch.randn(size, 1, generator=generator)


def losses(step: PlainStep, *groups: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    torch.manual_seed(5)
    return [step(group)[0].item() for group in groups]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "groups"),
    [
        # each size of a batch takes the C++ compiler seconds
        ("compiler", [[batch(8, 1), batch(8, 2)], [batch(8, 5)]]),
        (
            "traced",
            [[batch(8, 1), batch(8, 2)], [batch(8, 3), batch(5, 4)], [batch(8, 5)], [batch(8, 6)] * 2],
        ),
    ],
)
def test_it_trains_as_the_plain_step_does_whatever_the_batch(
    fixture: str, groups: list[Any], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(fixture)
    plain, compiled = step_of("plain", dropout=0.0), step_of("compile", dropout=0.0)
    assert compiled.next_phase() is PhaseName.COMPILING and compiled.record.recipe == "compile"
    found = losses(compiled, *groups)
    assert found == pytest.approx(losses(plain, *groups), rel=1e-4)
    assert (
        compiled.next_phase() is None and compiled.record.left_out == {} and compiled.capture_seconds is None
    )
    assert compiled.compile_seconds is not None and compiled.compile_seconds > 0
    for one, other in zip(plain.model.state_dict().items(), compiled.model.state_dict().items(), strict=True):
        assert one[0] == other[0]
        torch.testing.assert_close(other[1], one[1], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("traced")
def test_counters_on_the_host_change_no_bit_of_a_compiled_step() -> None:
    groups = [[batch(8, 1), batch(8, 2)], [batch(8, 3)], [batch(5, 4)]]
    usual, hidden = step_of("compile"), step_of("compile+host_counters")
    assert losses(hidden, *groups) == losses(usual, *groups) and hidden.record.left_out == {}
    states = usual.model.state_dict(), hidden.model.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert int(states[1]["norm.num_batches_tracked"]) == 4 and len(states[0]) == len(states[1])


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_batches_taken_in_turns_are_compiled_for_once() -> None:
    drawn = batch(generated_samples(8), 1)
    step = step_of("compile")
    torch._dynamo.utils.counters.clear()
    losses(step, *([turn] for turn in cut_batches(drawn, 8)))
    assert step.record.left_out == {} and torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("dynamic", "recompilations"), [(None, 0), (True, 0), (False, 1)])
def test_a_smaller_batch_runs_uncompiled_or_is_compiled_as_the_setting_says(
    dynamic: bool | None, recompilations: int
) -> None:
    groups = [[batch(8, 1)], [batch(5, 2)], [batch(8, 3)]]
    step = step_of("compile", dropout=0.0, compile_dynamic=dynamic)
    assert losses(step, *groups) == pytest.approx(losses(step_of("plain", dropout=0.0), *groups), rel=1e-4)
    assert step.compile_watch is not None
    found = step.compile_watch.compilation(0, 0.0)
    assert (found.recompilations, found.graph_breaks) == (recompilations, 0)
    notes = step.record.pop_notes()
    assert len(notes) == recompilations
    assert all(note.startswith("Recompilation at test_compiled.py:") for note in notes)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("dynamic", "sizes", "recorded"),
    [
        (True, (8, 8, 8, 8, 5, 5, 5, 5, 8), (0, 1, 2, 4, 5, 6)),
        (False, (8, 8, 8, 8, 5, 5, 5, 5, 8), (0, 1, 2, 4, 5, 6)),
        # a smaller batch runs uncompiled
        (None, (8, 5, 8, 8, 8, 16, 16, 16, 16, 8), (0, 2, 3, 5, 6, 7)),
    ],
)
def test_steps_that_record_the_graphs_of_a_compile_mode_for_a_new_size_do_not_count_as_steady(
    monkeypatch, dynamic: bool | None, sizes: tuple[int, ...], recorded: tuple[int, ...]
) -> None:
    step = step_of("compile", compile_mode="reduce-overhead", compile_dynamic=dynamic)
    monkeypatch.setattr(step, "_makes_graphs", True)  # as on a GPU
    seen, phases = [], []
    for number, size in enumerate(sizes):
        phases.append(step.next_phase())
        step([batch(size, number)])
        assert step.compile_watch is not None
        seen += [number] * step.compile_watch.has_compiled
    assert tuple(seen) == recorded
    assert phases[0] is PhaseName.COMPILING and phases.count(PhaseName.CAPTURING) == recorded[2]


CHANGING = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.power = nn.Linear(4, 1), 0, 1

    def forward(self, inputs):
        outputs = self.linear(inputs) ** self.power
        return outputs

def model():
    net = Net()
    net.register_forward_pre_hook(count)
    return net

@torch._dynamo.disable
def count(net, inputs):
    net.calls += 1
    net.power = 1 if net.calls < 5 else 2

def batch(size):
    return torch.randn(size, 4), torch.randn(size, 1)
"""


@pytest.mark.usefixtures("traced")
def test_a_run_reports_recompilations_and_excludes_measured_ones_from_its_throughput(own: OwnRuns) -> None:
    run = own.run(CHANGING, step={"recipe": "compile"}, steps=9)
    found = run.summary.compilation
    assert found is not None and found.measured_steps == 1 and found.measured_seconds > 0
    assert run.summary.warmup_steps == 1 and run.summary.compile_seconds is not None
    line = line_of(CHANGING, "** self.power")
    assert [event.kind for event in found.events].count("recompilation") == found.recompilations > 0
    assert any(event.place == f"net.py:{line}, forward" for event in found.events_of("recompilation"))
    told = [log.message for log in run.of(Log) if log.message.startswith("Recompilation")]
    assert told == [f"Recompilation at {event.words}." for event in found.events_of("recompilation")]


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_where_the_compiler_is_missing_the_same_steps_are_made_without_it() -> None:
    groups = [[batch(8, 1), batch(8, 2)], [batch(8, 3), batch(8, 4)]]
    compiled = step_of("compile", gradient_accumulation=2)
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        found = losses(compiled, *groups)
    assert compiled.record.recipe == "plain" and compiled.compile_seconds is None
    assert "compiler" in compiled.record.left_out["compile"]
    assert compiled.record.pop_notes() == [f"compile is not applied: {compiled.record.left_out['compile']}."]
    plain = step_of("plain", gradient_accumulation=2)
    assert found == losses(plain, *groups)
    assert all(map(torch.equal, plain.model.state_dict().values(), compiled.model.state_dict().values()))


@pytest.mark.usefixtures("traced")
def test_a_first_backward_pass_that_fails_leaves_no_trace() -> None:
    groups = [[batch(8, 1)], [batch(8, 2)]]
    compiled = step_of("compile")
    calls = []

    def fail_once(gradient: torch.Tensor) -> torch.Tensor:
        calls.append(gradient)
        if len(calls) == 1:
            raise RuntimeError("no kernel for this backward\nand a second line")
        return gradient

    next(compiled.model.parameters()).register_hook(fail_once)
    found = losses(compiled, *groups)
    assert compiled.record.left_out == {"compile": "it failed here (no kernel for this backward)"}
    assert found == losses(step_of("plain"), *groups)


@pytest.mark.usefixtures("traced")
def test_running_out_of_memory_is_no_reason_to_go_without() -> None:
    compiled = step_of("compile")

    def run_out(gradient: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    next(compiled.model.parameters()).register_hook(run_out)
    with pytest.raises(torch.OutOfMemoryError):
        compiled([batch(8, 1)])
    assert compiled.record.left_out == {}


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_budget_stores_a_share_of_the_activations_and_changes_no_loss() -> None:
    def trained(**settings: Any) -> tuple[list[float], int]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 1))
        experiment = Experiment.model_validate({"step": {"recipe": "compile", **settings}})
        step = build_step(model, nn.functional.mse_loss, experiment, CPU, is_convolutional=False)
        stored, batch = list[int](), (torch.randn(256, 32), torch.randn(256, 1))
        hooks = (lambda tensor: (stored.append(tensor.numel()), tensor)[1], lambda tensor: tensor)
        with torch.autograd.graph.saved_tensors_hooks(*hooks):
            losses = [float(step([batch])[0]) for _ in range(2)]
        assert not step.record.left_out
        return losses, sum(stored)

    (losses, all_of_it), (same, less) = trained(), trained(activation_checkpointing="0")
    assert same == pytest.approx(losses, rel=1e-6) and less < 0.6 * all_of_it

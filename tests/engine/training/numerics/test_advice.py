"""Advice: each kind where its evidence is there, and none without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import pytest

from engine.experiment.catalog import DeviceEntry
from engine.experiment.experiment import Experiment, layered
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.numerics import (
    Cause,
    DivergenceTest,
    FirstNonfinite,
    Fp32Modules,
    NonfiniteSearch,
    NumericsResults,
    Operation,
    Part,
    PrecisionMap,
    PrecisionRun,
)
from engine.protocol.ranges import LOSS, Exponents, ModuleRange, Quantity, Ranges
from engine.training.measuring.memory import Breakdown
from engine.training.models.tensor_cores import OddSize
from engine.training.numerics.bench import Bench
from engine.training.numerics.evidence import Cost, NumericsEvidence, gather_evidence
from engine.training.numerics.study import _BY_PART, find_advice
from engine.training.precision import cuda_precisions

from .conftest import end_of, own_settings

SEARCH = NonfiniteSearch(steps=100, least_scale=64.0, last_scale=65_536.0, sentence="All are finite.")
OVERFLOW = FirstNonfinite(
    module="fc",
    operation="aten.mm",
    direction="backward",
    step=3,
    cause=Cause.OVERFLOW,
    sentence="It overflowed.",
    remedy="Keep it in FP32.",
)
MEMORY = Breakdown(10.0, 10.0, 20.0, 50.0)


def card(capability: tuple[int, int]) -> DeviceEntry:
    precisions = cuda_precisions(capability)
    return DeviceEntry(
        name="cuda:0",
        title="a card",
        memory_mib=8_192,
        tensor_cores=capability >= (7, 0),
        precisions=precisions,
    )


def evidence(capability: tuple[int, int] = (8, 0), **known: Any) -> NumericsEvidence:
    """An FP16 experiment on a card, of which nothing gives cause for advice."""
    settings = {"precision": "fp16", "device": "cuda:0", "batch_size": 32, **known.pop("settings", {})}
    everything = {
        "results": NumericsResults(map=PrecisionMap(operations=(operation(),)), nan=SEARCH, range=ranges()),
        "cost": Cost(pass_seconds=0.01, breakdown=MEMORY, issue_seconds=0.001),
        "fp32_cost": Cost(
            pass_seconds=0.02, breakdown=replace(MEMORY, activations_mib=100.0), issue_seconds=0.001
        ),
        **known,
    }
    experiment = Experiment.model_validate(settings)
    return NumericsEvidence(experiment=experiment, device=card(capability), total_steps=100, **everything)


def operation(module: str = "fc", name: str = "aten.mm", dtype: str = "float16", **more: Any) -> Operation:
    outputs = (dtype,)
    return Operation(module=module, name=name, direction="forward", outputs=outputs, seconds=0.001, **more)


def ranges(*rows: ModuleRange, scale: float = 65_536.0) -> Ranges:
    return Ranges(rows=rows or (row("gradient"), row("activation")), scale=scale)


def row(quantity: Quantity, exponent: int = -10, **lost: int) -> ModuleRange:
    exponents = Exponents(first=exponent, counts=(100,), smallest=2.0**exponent, largest=2.0**exponent)
    return ModuleRange(module="fc", quantity=quantity, dtype="float16", exponents=exponents, **lost)


def mapped(*operations: Operation) -> NumericsResults:
    return NumericsResults(map=PrecisionMap(operations=operations))


def searched(**found: Any) -> NumericsResults:
    return NumericsResults(nan=SEARCH.model_copy(update=found))


def slow(ratio: float, **more: Any) -> Cost:
    return Cost(pass_seconds=0.02 * ratio, breakdown=MEMORY, **more)


CLIPPED = {"step": {"clip_norm": 1.0}}
CAST = operation(name="aten._to_copy", is_cast=True, by_autocast=True)
CASES = {
    "without Tensor Cores": (AdviceKind.SLOW_FORMAT, evidence((6, 1), cost=slow(1.2)), "24.0 ms in FP16"),
    "emulated": (
        AdviceKind.SLOW_FORMAT,
        evidence((7, 5), cost=slow(1.2), settings={"precision": "bf16"}),
        "20.0 ms in FP32",
    ),
    "odd size": (
        AdviceKind.ODD_SIZE,
        evidence(odd_sizes=(OddSize("outputs", 100, False, ("fc", "fc2")),)),
        "100% of the map's",
    ),
    "little work": (
        AdviceKind.LITTLE_WORK,
        evidence(cost=slow(0.5, issue_seconds=0.0095)),
        "9.50 ms to launch",
    ),
    "sinking scale": (
        AdviceKind.SCALE_SINKS,
        evidence(results=searched(least_scale=0.25, skipped=20)),
        "dropped to 0.25",
    ),
    "overflow at every scale": (
        AdviceKind.SCALE_SINKS,
        evidence(results=searched(skipped=1, first=OVERFLOW)),
        "In step 3, gradients overflow in fc",
    ),
    "scale that grows too late": (
        AdviceKind.SCALE_NEVER_GROWS,
        evidence(results=NumericsResults(range=ranges(row("gradient", -44, became_zero=100)))),
        "100% of the gradients",
    ),
    "casts": (
        AdviceKind.CASTS,
        evidence(cost=slow(1.2), results=mapped(CAST, operation())),
        "Casts take 50%",
    ),
    "half in the loss": (
        AdviceKind.HALF_IN_LOSS,
        evidence(results=mapped(operation(LOSS, "aten._log_softmax"))),
        "log_softmax in the loss",
    ),
    "half in a normalization": (
        AdviceKind.HALF_IN_LOSS,
        evidence(results=mapped(operation("norm", "aten.native_layer_norm"))),
        "native_layer_norm there",
    ),
    "clipping without a scaler": (
        AdviceKind.CLIPPING,
        evidence(cost=slow(0.5, infinite_norms=1), settings={**CLIPPED, "precision": "fp16-unscaled"}),
        "in 1 of 2 steps",
    ),
    "clipping with a scaler": (
        AdviceKind.CLIPPING,
        evidence(results=searched(skipped=20), settings=CLIPPED),
        "20 of 100 steps were skipped",
    ),
    "epsilon": (
        AdviceKind.EPSILON,
        evidence(half_parameters=("fc.weight",), epsilon=1e-8),
        "fc.weight is FP16",
    ),
    "memory": (
        AdviceKind.MEMORY,
        evidence(fp32_cost=slow(1.0)),
        "optimizer state 20 MiB, activations 50 MiB",
    ),
    "overflow": (
        AdviceKind.RANGE,
        evidence(results=NumericsResults(range=ranges(row("activation", 17, became_nonfinite=4)))),
        "4 of its 100 outputs",
    ),
    "underflow": (
        AdviceKind.RANGE,
        evidence(
            results=NumericsResults(range=ranges(row("gradient", -30, became_zero=50), scale=1.0)),
            settings={"precision": "fp16-unscaled"},
        ),
        "50% of the gradients",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_advice_names_the_evidence_that_it_rests_on(case):
    kind, known, words = CASES[case]
    (advice,) = [advice for advice in find_advice(known) if advice.kind is kind]
    assert words in advice.evidence
    check_changes(advice, known)


def check_changes(advice: Advice, known: NumericsEvidence) -> None:
    """Whoever takes the advice has an experiment that is valid."""
    assert bool(advice.changes) == bool(advice.action)
    dotted = [(*key.partition("."), value) for key, value in advice.changes]
    settings = [{table: {name: value}} if name else {table: value} for table, _, name, value in dotted]
    assert Experiment.model_validate(layered(known.experiment.model_dump(), *settings))


def climbed(precision: str = "fp16", **run: Any) -> DivergenceTest:
    """A divergence test in which one precision has what `run` says, and BF16 AMP matches FP32."""
    steady = PrecisionRun(label="BF16 AMP", precision="bf16", sentence="It stays.")
    other = PrecisionRun(label="The other", precision=precision, sentence="It diverges.", **run)
    return DivergenceTest(
        steps=4, runs=(steady, other) if precision != "bf16" else (other,), sentence="The whole."
    )


FOUND = {
    "an operation": ({"nan": SEARCH.model_copy(update={"first": OVERFLOW})}, "fp16", OVERFLOW.remedy),
    "trouble that did not recur": (
        {"nan": SEARCH.model_copy(update={"trouble_step": 3})},
        "fp16",
        "Find the cause of the NaN or Inf before you rely on this training.",
    ),
    "a module that is far off": (
        {"ladder": climbed(first_module="rope")},
        "fp16",
        "Keep rope in FP32: FP16 AMP changes its output too much.",
    ),
    "lost updates": (
        {"ladder": climbed("bf16-pure", diverges_at=2)},
        "bf16-pure",
        "Train in BF16 AMP. The other diverges from FP32.",
    ),
    "no other precision that stays": (
        {"ladder": climbed("bf16", diverges_at=2)},
        "bf16",
        "Train in FP32. The other diverges from FP32.",
    ),
    "an FP32 that breaks": (
        {
            "ladder": DivergenceTest(
                steps=2, band_low=(1.0, math.nan), sentence="FP32's own loss is not finite."
            )
        },
        "fp16",
        "FP32 diverges too. Lower the learning rate, or search for the first NaN.",
    ),
    "needed modules": (
        {"islands": Fp32Modules(modules=("fc",), sentence="It needs fc.")},
        "fp16",
        "Keep fc in FP32.",
    ),
    "modules that do not suffice": (
        {"islands": Fp32Modules(modules=None, sentence="None suffice.")},
        "fp16",
        "Use another precision. FP32 modules alone do not make this one as good as FP32.",
    ),
    "gradients that overflow": (
        {"range": ranges(row("gradient", became_nonfinite=3))},
        "fp16",
        "This precision loses values. Compare its losses with those of FP32 before you rely on it.",
    ),
}


@pytest.mark.parametrize(("results", "precision", "message"), FOUND.values(), ids=FOUND)
def test_what_a_part_found_is_never_passed_over(results, precision, message):
    known = evidence(results=NumericsResults(**results), settings={"precision": precision})
    (advice,) = [given for given in find_advice(known) if given.kind is not AdviceKind.MEMORY]
    assert advice.message == message
    assert advice.evidence == known.results.findings(known.experiment.precision)[next(iter(results))]
    check_changes(advice, known)


def test_every_part_that_a_study_may_have_has_its_advice():
    assert {part for part, *_ in _BY_PART} == set(get_args(Part))


@pytest.mark.parametrize(
    "known",
    [
        evidence(),
        evidence(cost=None, fp32_cost=None, results=NumericsResults()),
        evidence((6, 1), odd_sizes=(OddSize("inputs", 3, True, ("conv",)),)),
        evidence(results=NumericsResults(ladder=climbed("bf16-pure", diverges_at=2, first_module="rope"))),
        evidence(results=searched(skipped=2), settings=CLIPPED),
        evidence(results=searched(least_scale=1.0, skipped=20)),
        evidence(results=mapped(operation(LOSS, "aten._log_softmax", "float32"))),
        evidence(cost=slow(0.9), results=mapped(CAST, operation())),
        evidence(half_parameters=("fc.weight",), epsilon=1e-6, fp32_cost=None),
        evidence(results=NumericsResults(range=ranges(row("gradient", -44, became_zero=0)))),
    ],
    ids=[
        "a sound run",
        "nothing measured",
        "FP16 that pays without Tensor Cores, and sizes of the data",
        "another precision diverges",
        "few skips",
        "a scale of 1",
        "a loss in FP32",
        "casts that pay",
        "a large epsilon",
        "no lost gradient",
    ],
)
def test_what_does_no_harm_gives_no_cause_for_advice(known):
    assert find_advice(known) == ()


ONLY_ROOM_FOR_AMP = """
import torch
from torch import nn


class Net(nn.Linear):
    def forward(self, x):
        if not torch.is_autocast_enabled("cpu"):
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(x)


def model():
    return Net(8, 1)


def batch(size):
    return torch.randn(size, 8), torch.randn(size, 1)
"""


def test_costs_are_measured_in_both_precisions_where_a_map_was_asked_for(make_bench):
    bench = make_bench(precision="bf16", step={"clip_norm": 1.0})
    known = gathered(bench, mapped(operation()))
    assert known.cost is not None and known.fp32_cost is not None
    assert known.cost.pass_seconds > 0 and known.cost.issue_seconds is None
    assert known.cost.infinite_norms == 0 and known.epsilon == 1e-8
    mine, full = known.cost.breakdown, known.fp32_cost.breakdown
    assert mine.optimizer_state_mib == pytest.approx(2 * mine.parameters_mib, rel=0.1)
    assert mine.activations_mib and full.activations_mib
    assert end_of(gather_evidence(bench, NumericsResults())).cost is None
    assert gathered(make_bench(precision="fp32"), mapped(operation())).cost is None


def test_without_room_for_fp32_there_is_still_advice(make_bench, tmp_path):
    own = own_settings(tmp_path, ONLY_ROOM_FOR_AMP)
    known = gathered(make_bench(**own, precision="bf16"), mapped(operation()))
    assert known.cost is not None and known.fp32_cost is None


HALF = """
import torch
from torch import nn


def model():
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
    net[0].half().requires_grad_({is_trained})
    return net


def forward(model, inputs):
    return model[1](model[0](inputs.half()).float())


def batch(size):
    return torch.randn(size, 8), torch.randn(size, 1)
"""


@pytest.mark.parametrize(("is_trained", "half"), [(True, ("0.weight", "0.bias")), (False, ())])
def test_the_optimizers_epsilon_matters_only_for_weights_that_it_trains(
    make_bench, tmp_path, is_trained, half
):
    own = own_settings(tmp_path, HALF.format(is_trained=is_trained))
    known = gathered(make_bench(**own, precision="bf16"), NumericsResults())
    assert known.half_parameters == half and not known.is_float32


def gathered(bench: Bench, results: NumericsResults) -> NumericsEvidence:
    return end_of(gather_evidence(bench, results))

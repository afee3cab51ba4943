"""Parts of numerics as a worker would send them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol.advice import Advice, AdviceKind, Advices
from engine.protocol.numerics import (
    Cause,
    Direction,
    DivergenceTest,
    FirstNonfinite,
    Fp32Modules,
    Fp32Trial,
    MappedModule,
    ModuleError,
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Operation,
    PrecisionMap,
    PrecisionRun,
)
from engine.protocol.ranges import LOSS, Exponents, ModuleRange, Ranges
from engine.store.saved.studies import Study
from gui.numerics.panel import NumericsPanel
from gui.session.views import StudyView

EXPERIMENT = Experiment(model="small-cnn", precision=Precision.FP16)
MODULES = ("features.0", "features.1", "features.3", "classifier")


@pytest.fixture
def precision_map() -> PrecisionMap:
    """A small CNN in FP16."""
    named = (
        ("", "SmallCNN", 1_200),
        ("features", "Sequential", 900),
        ("features.0", "Conv2d", 300),
        ("features.1", "BatchNorm2d", 300),
        ("features.3", "Conv2d", 300),
        ("classifier", "Linear", 300),
    )
    modules = tuple(
        MappedModule(name=name, class_name=kind, parameters=count, kept_in_fp32=name == "features.3")
        for name, kind, count in named
    )
    convolution = "aten.convolution"
    return PrecisionMap(
        modules=modules,
        operations=(
            _cast("features.0"),
            _ran("features.0", convolution),
            _ran("features.0", f"{convolution}_backward", "backward"),
            _ran("features.3", convolution, dtype="float32"),
            _ran("features.3", f"{convolution}_backward", "backward", dtype="float32"),
            _cast("classifier"),
            _ran("classifier", "aten.addmm"),
            _ran("classifier", "aten.mm", "backward"),
            _ran("features.1", "aten.native_batch_norm", inputs=("float16", "float32")),
            _ran(LOSS, "aten._log_softmax", dtype="float32"),
        ),
        attributed_fraction=1.0,
        seconds=0.02,
        notes=(
            "On CUDA, softmax and layer_norm compute in FP32 under autocast; on a CPU they stay in 16 bits.",
        ),
    )


def _ran(
    module: str, name: str, direction: Direction = "forward", dtype: str = "float16", **more: Any
) -> Operation:
    times = 2 if direction == "backward" else 1
    known = {"seconds": 4e-4 * times, "moved_bytes": 900_000 * times, "inputs": (dtype,) * 2, **more}
    return Operation(module=module, name=name, direction=direction, outputs=(dtype,), **known)


def _cast(module: str) -> Operation:
    ran = _ran(module, "aten._to_copy", inputs=("float32",), seconds=2e-5, moved_bytes=60_000)
    return ran.model_copy(update={"count": 2, "is_cast": True, "by_autocast": True})


@pytest.fixture
def ranges() -> Ranges:
    """Gradients of which a part is too small for FP16 without a loss scale."""
    rows = []
    for place, module in enumerate(MODULES):
        for quantity, first in (("activation", -12), ("gradient", -34 + 3 * place), ("weight", -10)):
            counts = tuple(round(1_000 * 2.0 ** -abs(bin_ - 7)) for bin_ in range(15))
            largest = 1.5 * 2.0 ** (first + 14)
            rows.append(
                ModuleRange(
                    module=module,
                    quantity=quantity,
                    dtype="float32" if quantity == "weight" else "float16",
                    exponents=Exponents(
                        first=first, counts=counts, zeros=40, smallest=2.0**first, largest=largest
                    ),
                )
            )
    return Ranges(rows=tuple(rows), scale=65_536.0, step=1)


@pytest.fixture
def search() -> NonfiniteSearch:
    """An overflow in a forward pass, reproduced."""
    first = FirstNonfinite(
        module="features.3",
        class_name="Conv2d",
        operation="aten.convolution",
        direction="forward",
        step=12,
        cause=Cause.OVERFLOW,
        inputs=("float16", "float16"),
        outputs=("float16",),
        least=-812.0,
        most=40_120.0,
        result=91_172.0,
        infinite=96,
        grad_scale=65_536.0,
        batch="16×1×28×28 float32, from -0.4 to 2.8",
        sentence="In step 12, forward, the convolution of features.3 made 96 infinite values in FP16.",
        remedy="Keep features.3 in FP32, or use BF16, whose range is FP32's.",
        changes=(("step.fp32_modules", "features.3"),),
    )
    return NonfiniteSearch(
        first=first,
        from_step=10,
        steps=2,
        reproduced=2,
        trouble_step=12,
        last_scale=65_536.0,
        sentence="Reproduced twice from the state after step 10.",
    )


@pytest.fixture
def divergence() -> DivergenceTest:
    """FP16 without a scaler diverges at step 21, the other precisions do not."""
    steps = 60
    reference = tuple(2.3 * 0.97**step for step in range(steps))
    low, high = (tuple(loss * factor for loss in reference) for factor in (0.999, 1.001))
    apart = tuple(
        loss * (1.0 if step < 20 else 1.0 + 0.01 * (step - 19)) for step, loss in enumerate(reference)
    )
    errors = tuple(
        ModuleError(module=name, relative_error=4e-4 * 2**place) for place, name in enumerate(MODULES)
    )
    return DivergenceTest(
        steps=steps,
        repeats=(reference, low, high),
        band_low=low,
        band_high=high,
        runs=(
            PrecisionRun(
                label="FP16 unscaled",
                precision=Precision.FP16_UNSCALED,
                losses=apart,
                diverges_at=21,
                first_module="features.1",
                errors=errors,
                sentence="FP16 unscaled diverges from FP32 at step 21, features.1 first.",
            ),
            PrecisionRun(
                label="FP16 AMP",
                precision=Precision.FP16,
                losses=reference,
                errors=errors,
                skipped=1,
                sentence="FP16 AMP stays within FP32's band for all 60 steps.",
            ),
            PrecisionRun(
                label="BF16 AMP",
                precision=Precision.BF16,
                losses=reference,
                errors=errors,
                sentence="BF16 AMP stays within FP32's band for all 60 steps.",
            ),
        ),
        sentence="FP16 unscaled diverges from FP32 at step 21. FP16 AMP and BF16 AMP do not.",
    )


@pytest.fixture
def fp32_modules() -> Fp32Modules:
    """One module needs FP32."""
    trials = (
        Fp32Trial(modules=(), is_good=False, reason="The loss is NaN from step 3 on.", seconds=1.2),
        Fp32Trial(modules=("features", "classifier"), is_good=True, final_loss=0.61, seconds=1.3),
        Fp32Trial(modules=("features.3",), is_good=True, final_loss=0.61, seconds=1.2),
    )
    return Fp32Modules(
        modules=("features.3",),
        is_minimal=True,
        trials=trials,
        steps=20,
        speed_ratio=0.97,
        memory_added_mib=1.5,
        changes=(("step.fp32_modules", "features.3"),),
        sentence="features.3 needs FP32.",
    )


@pytest.fixture
def advices() -> Advices:
    return Advices(
        items=(
            Advice(
                kind=AdviceKind.ODD_SIZE,
                message="Make the sizes of classifier multiples of 8.",
                evidence="classifier has 10 outputs; Tensor Cores take multiples of 8 at full speed.",
                modules=("classifier",),
            ),
            Advice(
                kind=AdviceKind.SCALE_SINKS,
                message="Use BF16, which needs no loss scale.",
                evidence="The loss scale sank from 65,536 to 0.5 in 40 steps.",
                changes=(("precision", "bf16"),),
                action="Use BF16",
            ),
        )
    )


@pytest.fixture
def results(
    precision_map: PrecisionMap,
    ranges: Ranges,
    search: NonfiniteSearch,
    divergence: DivergenceTest,
    fp32_modules: Fp32Modules,
    advices: Advices,
) -> NumericsResults:
    """All parts."""
    return NumericsResults(
        map=precision_map, range=ranges, nan=search, ladder=divergence, islands=fp32_modules, advice=advices
    )


def view_of(results: NumericsResults | None = None, **changes: Any) -> StudyView[Numerics]:
    answer = Numerics(experiment=EXPERIMENT, results=results or NumericsResults())
    return replace(StudyView.of(Study(id="abc", answer=answer)), **changes)


@pytest.fixture
def panel(qtbot: QtBot) -> NumericsPanel:
    panel = NumericsPanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 600)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel

"""A saved diagnosis with every part."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol.numerics.advice import Advice, AdviceKind, Advices
from engine.protocol.numerics.diagnosis import Diagnosis, Numerics, PartResult
from engine.protocol.numerics.formats import Exponents
from engine.protocol.numerics.islands import Islands, IslandTrial
from engine.protocol.numerics.ladder import Ladder, Rung
from engine.protocol.numerics.nonfinite import Cause, FirstNonfinite, NonfiniteSearch
from engine.protocol.numerics.precision_map import LOSS, MappedModule, Operation, PrecisionMap
from engine.protocol.numerics.ranges import ModuleRange, Ranges
from engine.store.saved.study import Study

FORMULA = "=cmd|'/c calc'!A1"
MARKUP = "<script>alert(1)</script>"
HALF, SINGLE = ("float16",), ("float32",)


def _operation(module: str, name: str, milliseconds: float, is_cast: bool = False) -> Operation:
    return Operation(
        module=module,
        name=name,
        direction="forward",
        inputs=SINGLE if is_cast else HALF,
        outputs=HALF,
        seconds=milliseconds / 1000,
        moved_bytes=2**20,
        is_cast=is_cast,
        by_autocast=is_cast,
    )


PARTS: tuple[PartResult, ...] = (
    PrecisionMap(
        modules=(
            MappedModule(name="", class_name="Net"),
            MappedModule(name="fc", class_name="Linear"),
            MappedModule(name=FORMULA, class_name="Linear"),
        ),
        operations=(
            _operation("fc", "aten._to_copy", 1, is_cast=True),
            _operation("fc", "aten.addmm", 3),
            _operation(FORMULA, "aten.addmm", 2),
            _operation(LOSS, "aten._log_softmax", 1),
        ),
        attributed_fraction=0.995,
        notes=(f"On CUDA it differs {MARKUP}.",),
    ),
    Ranges(
        rows=(
            ModuleRange(
                module="fc",
                quantity="gradient",
                exponents=Exponents(first=-40, counts=(1, 0, 3), smallest=2.0**-40, largest=2.0**-38),
            ),
            ModuleRange(module="fc", quantity="weight", exponents=Exponents(first=0, counts=(4,))),
        ),
        scale=2.0**14,
        step=1,
    ),
    NonfiniteSearch(
        first=FirstNonfinite(
            module="fc",
            operation="aten.addmm",
            direction="forward",
            step=3,
            cause=Cause.OVERFLOW,
            most=float("inf"),
            sentence="In step 3 fc overflowed.",
            remedy="Keep fc in FP32.",
        ),
        reproduced=2,
        sentence="Reproduced twice.",
    ),
    Ladder(
        steps=2,
        repeats=((2.0, 1.0), (2.0, 1.01)),
        band_low=(2.0, 1.0),
        band_high=(2.0, 1.01),
        rungs=(
            Rung(
                label="FP16",
                precision=Precision.FP16_UNSCALED,
                losses=(2.0, float("nan")),
                parts_at=2,
                first_module="fc",
                sentence="FP16 parts from FP32 at step 2.",
            ),
        ),
        sentence="Only FP16 parts.",
    ),
    Islands(
        modules=("fc",),
        is_minimal=True,
        trials=(
            IslandTrial(modules=(), is_good=False, reason="the loss is NaN from step 2 on"),
            IslandTrial(modules=("fc",), is_good=True, final_loss=1.0),
        ),
        speed_ratio=0.8,
        memory_added_mib=2.0,
        sentence="Only fc must stay in FP32.",
    ),
    Advices(
        items=(
            Advice(
                kind=AdviceKind.CASTS,
                message="The casts cost more than FP16 saves.",
                evidence="4 ms of 7 ms.",
                changes=(("precision", "fp32"),),
                action="Use FP32",
            ),
        )
    ),
)


@pytest.fixture
def saved() -> Study[Numerics]:
    diagnosis = Diagnosis()
    for part in PARTS:
        diagnosis = diagnosis.with_part(part)
    answer = Numerics(
        experiment=Experiment(precision=Precision.FP16),
        parts=("map", "range", "nan", "ladder", "islands"),
        diagnosis=diagnosis,
    )
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Study(id="0123456789ab", created=created, device_name="a card", answer=answer)

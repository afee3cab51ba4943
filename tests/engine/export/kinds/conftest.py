"""Saved results of every kind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.protocol.advice import Advice, AdviceKind, Advices
from engine.protocol.events import Finished, Summary
from engine.protocol.numerics import (
    Cause,
    DivergenceTest,
    FirstNonfinite,
    Fp32Modules,
    Fp32Trial,
    MappedModule,
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Operation,
    PartResult,
    PrecisionMap,
    PrecisionRun,
)
from engine.protocol.profile import Profiles, ProfileSide
from engine.protocol.ranges import LOSS, Exponents, ModuleRange, Ranges
from engine.protocol.trials import Limit, LimitResult, LimitSide, Trial
from engine.store.saved.studies import Study
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store

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
    DivergenceTest(
        steps=2,
        repeats=((2.0, 1.0), (2.0, 1.01)),
        band_low=(2.0, 1.0),
        band_high=(2.0, 1.01),
        runs=(
            PrecisionRun(
                label="FP16",
                precision=Precision.FP16_UNSCALED,
                losses=(2.0, float("nan")),
                diverges_at=2,
                first_module="fc",
                sentence="FP16 diverges from FP32 at step 2.",
            ),
        ),
        sentence="Only FP16 diverges.",
    ),
    Fp32Modules(
        modules=("fc",),
        is_minimal=True,
        trials=(
            Fp32Trial(modules=(), is_good=False, reason="the loss is NaN from step 2 on"),
            Fp32Trial(modules=("fc",), is_good=True, final_loss=1.0),
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
    results = NumericsResults()
    for part in PARTS:
        results = results.with_part(part)
    answer = Numerics(
        experiment=Experiment(precision=Precision.FP16),
        parts=("map", "range", "nan", "ladder", "islands"),
        results=results,
    )
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Study(id="0123456789ab", created=created, device_name="a card", answer=answer)


PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message=f"No room {MARKUP}.", remedy="Use a smaller batch.")


def record_of(profiles: Profiles, folder: Path) -> Study[Profiles]:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Study(id="0123456789ab", created=created, device_name="a card", answer=profiles, folder=folder)


@pytest.fixture
def profiled(profiles: Profiles, tmp_path: Path) -> Study[Profiles]:
    """Two sides with traces, and one that failed."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for place in range(2):
        profile = profiles.sides[place].profile
        assert profile is not None
        profiles = profiles.with_side(place, profile=profile.model_copy(update={"trace": f"{place}.json.gz"}))
        (folder / f"{place}.json.gz").write_text(f"trace {place}")
    failed = ProfileSide(
        experiment=profiles.sides[0].experiment.model_copy(update={"seed": 3}), problem=PROBLEM
    )
    return record_of(Profiles(sides=(*profiles.sides, failed)), folder)


@pytest.fixture
def swept(store: Store) -> SweepRecord:
    """Two precisions and two batch sizes: one cell is excluded, one waits, the loss of one diverged."""
    grid = grid_of(
        {"steps": 10},
        [Axis(key="precision", values=("fp32", "bf16")), Axis(key="batch_size", values=(32, 64))],
    )
    sweep_id = store.sweeps.add(
        "=Night", grid, Plan(), device_name="a card", left_out={3: "It will not fit."}
    )
    comparison = store.sweeps.find(sweep_id).comparison
    for index, speed, loss in ((0, 1_000.0, float("nan")), (2, 1_500.0, 0.5)):
        run = store.add(
            grid.cells[index].experiment, comparison=comparison, sweep=sweep_id, cell=index, repeat=1
        )
        store.begin(run.id)
        summary = Summary(
            steps=10, samples_per_second=speed, peak_resident_mib=2_000.0, final_train_loss=loss
        )
        store.record(run.id, [Finished(summary=summary)])
    return store.sweeps.find(sweep_id)


@pytest.fixture
def searched() -> Study[Limit]:
    """A search in two precisions, both proven."""
    sides = (_side(Precision.FP32, 64), _side(Precision.BF16, 128))
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Study(id="0123456789a1", created=created, device_name="a card", answer=Limit(sides=sides))


def _side(precision: Precision, batch: int) -> LimitSide:
    trials = (
        *(
            Trial(
                batch_size=batch // part,
                fits=True,
                peak_mib=900.25 / part,
                one_step_samples_per_second=20.0 * batch / part**0.5,
                seconds=1.5,
                steps=4,
            )
            for part in (4, 2, 1)
        ),
        Trial(batch_size=batch + 1, fits=False, cause="memory", seconds=0.5, note=FORMULA),
    )
    return LimitSide(
        label=precision.label,
        experiment=Experiment(precision=precision, batch_size=1),
        budget_mib=1_000.0,
        trials=trials,
        result=LimitResult(
            precision=precision,
            largest_batch=batch,
            verified=True,
            first_failure=batch + 1,
            recommended_batch=batch - 8,
            peak_mib=900.25,
            budget_mib=1_000.0,
            bound_by="memory",
            trials=trials,
            seconds=2.0,
        ),
    )

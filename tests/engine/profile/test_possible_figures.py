"""Whatever a profile holds, no figure that is told of it is impossible: in verdicts, pictures and exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drawing.shapes import Drawing, TextLine
from engine.experiment.experiment import Precision, experiment_from
from engine.export.kinds.profile import sections
from engine.export.kinds.profile import values as as_json
from engine.profile.charts import bars_drawing, roofline_drawing
from engine.profile.gain import gains
from engine.profile.names import advice_by_side
from engine.profile.verdict import Bottleneck, peak_sentence, verdicts
from engine.protocol.profile import Bar, Limits, Peak, Profiles, ProfileSide, StepPart, StepProfile, TimeRow

FORMATS = {"fp32": Precision.FP32, "tf32": Precision.TF32, "fp16": Precision.FP16, "bf16": Precision.BF16}
MS = st.floats(0.01, 1e4)
RATES = st.floats(1e-6, 2e3)
_PERCENT = re.compile(r"([\d,.]+)%")
_AT_BEST = re.compile(r"([\d,.]+) ms(?: at best)?, ([\d,.]+) times as fast")


@st.composite
def rows(draw: st.DrawFn, name: str) -> TimeRow:
    return TimeRow(
        name=draw(st.sampled_from(("gemm", "conv", "add", "norm"))),
        part=draw(st.sampled_from(list(StepPart))),
        ms=draw(MS),
        calls=draw(st.floats(0, 1e3)),
        matrix_unit_fraction=draw(st.floats(0, 1)),
        format=name,
        flops=draw(st.none() | st.floats(1, 1e15)),
        moved_bytes=draw(st.none() | st.floats(1, 1e12)),
    )


@st.composite
def sides(draw: st.DrawFn) -> ProfileSide:
    """A side as a worker may send it: its bar adds up to its step; all the rest may contradict it."""
    device, name = draw(st.sampled_from(("cpu", "cuda:0"))), draw(st.sampled_from(sorted(FORMATS)))
    parts = draw(st.dictionaries(st.sampled_from(list(StepPart)), MS, min_size=1))
    bar = Bar.of(parts.items())
    peaks = draw(st.none() | st.dictionaries(st.sampled_from(sorted(FORMATS)), RATES))
    kernels = st.lists(rows(name), max_size=3, unique_by=lambda row: row.name).map(tuple)
    profile = StepProfile(
        device_type=device.partition(":")[0],
        steps=5,
        samples=draw(st.sampled_from((8, 64))),
        step_ms=bar.total_ms,
        recorded_ms=draw(MS),
        bar=bar,
        format=name,
        matrix_units=draw(st.sampled_from((None, "Tensor Cores"))),
        threads=draw(st.integers(1, 8)) if device == "cpu" else None,
        cores=draw(st.none() | st.integers(1, 8)),
        kernels=draw(kernels),
        operations=draw(kernels),
        modules=draw(kernels),
        flops=draw(st.none() | st.floats(1, 1e16)),
        limits=None
        if peaks is None
        else Limits(
            peaks=tuple(Peak(format=known, tflops=rate) for known, rate in peaks.items()),
            gb_per_second=draw(RATES),
        ),
        disturbance=draw(st.sampled_from((None, None, "other programs ran"))),
    )
    data = {"workers": draw(st.integers(0, 8)), "pin_memory": draw(st.booleans())}
    experiment = experiment_from(
        {"model": "small-cnn", "precision": FORMATS[name].value, "device": device, "data": data}
    )
    return ProfileSide(experiment=experiment, profile=profile)


timings = st.lists(sides(), min_size=1, max_size=3).map(lambda known: Profiles(sides=tuple(known)))


def number(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))


def told(profiles: Profiles) -> Iterator[str]:
    """All that is said of a timing, in words, pictures and tables."""
    for verdict in filter(None, verdicts(profiles)):
        yield f"{verdict.sentence} {verdict.next_step}"
    yield from (gain.sentence for gain in gains(profiles) if gain is not None)
    yield from (sentence for profile in profiles.measured() if (sentence := peak_sentence(profile)))
    for drawing in (bars_drawing(profiles, 900), roofline_drawing(profiles, 900, 400)):
        yield from words_of(drawing)
    for section in sections(profiles):
        yield from section.sentences
        yield from (cell for row in section.rows for cell in row)


def words_of(drawing: Drawing) -> Iterator[str]:
    yield drawing.description
    yield from (shape.text for shape in drawing.shapes if isinstance(shape, TextLine))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(timings)
def test_no_share_exceeds_the_whole_and_no_step_its_peak(profiles):
    for text in told(profiles):
        assert all(number(share) <= 100 for share in _PERCENT.findall(text)), text

    for side in json.loads(json.dumps(as_json(profiles)))["sides"]:
        profile, limits = side["profile"], side["profile"]["limits"]
        assert side["fraction_of_measured_peak"] is None or side["fraction_of_measured_peak"] <= 1
        reached = (profile["flops"] or 0.0) / profile["step_ms"] / 1e9
        for peak in limits["peaks"] if limits else ():
            assert peak["format"] != profile["format"] or reached <= peak["tflops"]
    # one roofline holds all sides of a device
    for device in {side.experiment.device for side in profiles.sides}:
        shared = {
            side.profile.limits.peaks
            for side in profiles.sides
            if side.experiment.device == device and side.profile is not None and side.profile.limits
        }
        assert len(shared) <= 1


@settings(deadline=None, max_examples=60)
@given(sides())
def test_what_would_help_is_possible_and_nothing_is_said_of_disturbed_steps(side):
    profiles = Profiles(sides=(side,))
    (verdict,), profile = verdicts(profiles), side.profile
    assert isinstance(verdict, Bottleneck) and profile is not None
    if profile.disturbance is not None:
        assert (verdict.changes, advice_by_side(profiles)) == ((), ())
    for least_ms, ratio in _AT_BEST.findall(verdict.next_step):
        assert number(ratio) == pytest.approx(profile.step_ms / number(least_ms), rel=0.03)
    for key, workers in verdict.changes:
        if key == "data.workers":
            (least_ms, _), *_ = _AT_BEST.findall(verdict.next_step)
            loading_ms = profile.bar.ms(StepPart.DATA)
            assert int(workers) <= (profile.cores or 32)
            assert number(least_ms) >= 0.99 * loading_ms / int(workers)
            assert number(least_ms) >= 0.99 * (profile.step_ms - loading_ms)

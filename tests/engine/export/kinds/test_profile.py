"""A saved profile as sections, data and traces."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from engine.experiment.problem import ProblemError
from engine.export.content import content_of
from engine.export.document import Section
from engine.export.formats import COMPARISON, TRACES
from engine.export.kinds.profile import BAR, LIMITS, PARTS, document, sections
from engine.export.report.pages import page
from engine.profile.names import failures
from engine.protocol.profile import Profiles, StepProfile
from engine.store.saved.studies import Study
from engine.store.store import Store
from tests.engine.export.kinds.conftest import PROBLEM, record_of


def by_title(profiles: Profiles, *, brief: bool = False) -> dict[str, Section]:
    return {section.title: section for section in sections(profiles, brief=brief)}


def test_the_sections_hold_the_sides_against_each_other_as_far_as_there_is_room(profiles: Profiles) -> None:
    parts = by_title(profiles)
    assert list(parts) == [
        BAR,
        PARTS,
        "What limits FP32",
        "What limits FP16 AMP",
        "Advice",
        LIMITS,
        "Energy",
        "Kernels",
        "Operations",
        "Modules",
    ]
    alone, both = (by_title(Profiles(sides=profiles.sides[:count]))["Kernels"].headings for count in (1, 2))
    assert {"Share", "Calls"} < set(alone)
    assert both[-1] == "Ratio" and not any(heading.endswith(("Share", "Calls")) for heading in both)
    whole, brief = (by_title(profiles, brief=is_brief)["Kernels"] for is_brief in (False, True))
    assert whole.first_rows(2) == (whole.rows[:2], 1) and len(whole.rows) == len(brief.rows) == 3
    assert set(brief.headings) < set(whole.headings) and "FP16 AMP TC" in brief.headings
    assert {row[1] for row in brief.rows} == {"aten::cudnn_convolution", "aten::cudnn_batch_norm"}
    assert max(len(row[0]) for row in brief.rows) <= 40 < max(len(row[0]) for row in whole.rows)


def test_what_a_cpu_reaches_is_in_gflops_and_nothing_launches_its_kernels(
    fp32_profile: StepProfile, profiles: Profiles
) -> None:
    slow = tuple(
        row.model_copy(update={"ms": 1e3 * row.ms, "operation": None}) for row in fp32_profile.kernels
    )
    side = profiles.sides[0].model_copy(update={"profile": fp32_profile.model_copy(update={"kernels": slow})})
    kernels = by_title(Profiles(sides=(side,)), brief=True)["Kernels"]
    assert kernels.headings == ("Kernel", "ms", "TC", "GFLOP/s")
    assert kernels.rows[0][1:] == ("34,800", "no", "27.6")


def test_a_single_side_is_not_named_and_one_without_a_profile_says_why(
    fp32_profile: StepProfile, profiles: Profiles, tmp_path: Path
) -> None:
    alone = Profiles(sides=profiles.sides[:1])
    parts = by_title(alone)
    assert parts["What limits FP32"].sentences[0].startswith("Compute-bound")
    assert parts["Advice"].headings[0] == "Advice"
    assert parts["Operations"].headings[1] == "Share" and "Ratio" not in parts["Kernels"].headings
    failed = alone.with_side(0, profile=None, problem=PROBLEM)
    assert sections(failed) == () and failures(failed)[0].endswith("Use a smaller batch.")
    failed = profiles.with_side(0, profile=None, problem=PROBLEM).with_side(1, profile=None, problem=PROBLEM)
    assert "No part of the profile was finished." in document(record_of(failed, tmp_path)).nothing


def test_each_side_has_its_trace(profiled: Study[Profiles], tmp_path: Path) -> None:
    path = TRACES.export(profiled, tmp_path / "x.json.gz")
    assert (path.read_text(), (tmp_path / "x-2.json.gz").read_text()) == ("trace 0", "trace 1")
    (tmp_path / "traces" / "0.json.gz").unlink()
    (tmp_path / "traces" / "1.json.gz").unlink()
    with pytest.raises(ProblemError, match="has no trace"):
        TRACES.export(profiled, path, force=True)
    assert path.read_text() == "trace 0"


def save(store: Store, profiles: Profiles, *run_ids: str | None) -> None:
    for place, run_id in enumerate(run_ids):
        profiles = profiles.with_side(place, run_id=run_id)
    profiles = Profiles(sides=profiles.sides[: len(run_ids)])
    store.studies.begin(Study(answer=profiles, device_name="a card"))


def test_the_newest_timing_of_the_runs_and_no_others_is_in_the_report(
    exports_store: Store, trained: Callable[..., str], profiles: Profiles
) -> None:
    full, half, other = trained("fp32"), trained("fp16", speed=2_500.0), trained("bf16")
    runs = [full, half]
    assert content_of(exports_store, runs).profiles is None
    for ids in ((full, half), (full, other), (half, full), (full, None), (full,)):
        save(exports_store, profiles, *ids)
    found = content_of(exports_store, runs).profiles
    assert found is not None and [side.run_id for side in found.sides] == runs
    alone = content_of(exports_store, [full]).profiles
    assert alone is not None and [side.run_id for side in alone.sides] == [full]


def test_its_bars_and_answers_are_on_the_page_and_in_the_pdf(
    exports_store: Store,
    trained: Callable[..., str],
    profiles: Profiles,
    tmp_path: Path,
    program: Callable[[str], Path],
) -> None:
    full, half = trained("fp32"), trained("fp16", speed=2_500.0)
    save(exports_store, profiles, full, half)
    content = content_of(exports_store, [full, half])
    whole = " ".join(unescape(page(content)).split())
    path = COMPARISON.export(content, tmp_path / "report.pdf")
    done = subprocess.run(
        [str(program("pdftotext")), str(path), "-"], capture_output=True, text=True, check=True
    )
    for text in (whole, " ".join(done.stdout.split())):
        assert "Where the time goes" in text and "FP16 AMP is 2.91 times as fast as FP32" in text
        assert "Matrix work on Tensor Cores" in text

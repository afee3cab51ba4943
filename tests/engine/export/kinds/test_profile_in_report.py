"""The report of a comparison has the profile of its runs, if one was saved."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path

from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.export.report.pages import page
from engine.protocol.profiles import Profiles
from engine.store.saved.study import Study
from engine.store.store import Store


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

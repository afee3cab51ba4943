"""Names from elsewhere are shown as they are written: nothing that they hold is taken for markup."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import tomli_w
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.presets import own_presets_folder
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Plan, axes_of, grid_of
from engine.protocol.events import Environment, Failed, Finished, Log, Samples, Started, Summary
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit, LimitResult, LimitSide, Trial
from engine.protocol.tune import Gain, Proof, Tuning, TuningTrial
from engine.store.record import Work
from engine.store.saved.studies import Study
from engine.store.store import Store
from gui.setup.question import QUESTIONS
from gui.window.main_window import MainWindow
from tests.hostile import MARKUP, markup_in, names_in, poisoned

MACHINE = poisoned(
    Environment(device_name="A card", device_memory_mib=1.0, torch="2", python="3", os="Linux", ammeter="0.1")
)
PROBLEM = poisoned(Problem(kind=Kind.NOT_A_NUMBER, message="It is NaN.", remedy="Lower the rate."))
NAMED = {"model": f"{MARKUP}net", "dataset": f"{MARKUP}data", "steps": 60}
NEVER_RUN = """import sys
sys.modules["was_run"] = sys
def model(): raise SystemExit
"""
FP32, BF16 = Precision.FP32, Precision.BF16


def add_run(
    store: Store,
    precision: Precision,
    *,
    sweep: str | None = None,
    cell: int = 0,
    settings: dict[str, str] | None = None,
    **more: str,
) -> str:
    experiment = Experiment.model_validate({**NAMED, **(settings or {}), "precision": precision})
    place = {} if sweep is None else {"sweep": sweep, "cell": cell, "repeat": 1}
    run = store.add(experiment, name=f"{MARKUP}{precision}", label=f"{MARKUP}{precision}", **more, **place)
    store.begin(run.id)
    begin = Started(
        experiment=experiment,
        environment=MACHINE,
        total_steps=60,
        steps_per_epoch=60,
        parameters=11,
        loss_name=f"{MARKUP}loss",
        loss_unit=f"{MARKUP}nats",
    )
    steps = tuple(range(1, 61))
    samples = Samples(
        step=steps,
        seconds=tuple(0.01 * step for step in steps),
        loss=tuple(1.0 / step for step in steps),
        samples_per_second=tuple(1_000.0 for _ in steps),
        learning_rate=tuple(0.1 for _ in steps),
    )
    summary = Summary(
        steps=60, samples_per_second=1_000.0, speed_note="Short.", slowed_by=("heat",), recipe="x"
    )
    summary = poisoned(summary.model_copy(update={"left_out": {f"{MARKUP}part": f"{MARKUP}why"}}))
    store.record(run.id, [begin, samples, Log(level="warning", message=MARKUP), Finished(summary=summary)])
    store.set_tags(run.id, [MARKUP])
    store.set_note(run.id, MARKUP)
    return run.id


def fill(store: Store, profiles: Profiles) -> None:
    """Runs, a queue, and each kind of saved work, in which all names are markup."""
    code = Code(file="<h1>x<b>.py", folder=f"/{MARKUP}", text=NEVER_RUN)
    pair = store.add_comparison(MARKUP)
    for precision in (FP32, BF16):
        add_run(store, precision, comparison=pair, settings={"model": code.file, "code": code.to_json()})
    failed = store.add(Experiment.model_validate(NAMED), name=MARKUP)
    store.begin(failed.id)
    store.record(failed.id, [Failed(problem=PROBLEM, detail=MARKUP)])
    own = experiment_from({"model": code.file, "code": code.to_json(), "steps": 60})
    store.waiting.save([Work(store.add(own, name=MARKUP).id, "run", MARKUP)])
    grid = grid_of({**NAMED, "device": "cpu"}, axes_of({"model": (f"{MARKUP}a", "b"), "batch_size": (8, 16)}))
    sweep = store.sweeps.add(
        MARKUP, grid, Plan(), device_name=MARKUP, left_out={3: f"{MARKUP} does not fit."}
    )
    for cell in range(2):
        add_run(store, FP32, sweep=sweep, cell=cell)
    store.sweeps.end(sweep, PROBLEM)
    named = Experiment.model_validate(NAMED)
    trials = (
        Trial(batch_size=8, fits=True, peak_mib=10.0, note=MARKUP),
        Trial(batch_size=16, fits=False, cause="error", note=MARKUP),
    )
    result = LimitResult.model_validate(
        {
            "largest_batch": 8, "recommended_batch": 7, "first_failure": 16, "verified": True,
            "bound_by": "error", "precision": "fp32", "budget_mib": 100.0, "seconds": 1.0, "note": MARKUP,
        }
    )  # fmt: skip
    side = LimitSide(label=MARKUP, experiment=named, trials=trials, budget_mib=100.0, result=result)
    changes = {"precision": "bf16"}
    trial = TuningTrial(
        round=1, steps=10, seconds=1.0, changes=changes, words=MARKUP, samples_per_second=10.0
    )
    wrong = trial.model_copy(update={"problem": PROBLEM, "words": f"{MARKUP}2"})
    tuning = Tuning(
        experiment=named,
        phase="over",
        candidates=2,
        rounds=1,
        trials=(trial, wrong),
        winner=named,
        winner_changes=changes,
        gains=(Gain(words=MARKUP, changes=changes, speedup=2.0),),
        proof=Proof(sentence=MARKUP, speedup=2.0),
        not_tried=(MARKUP,),
    )
    for answer in (poisoned(profiles), Limit(sides=(side,)), tuning):
        store.studies.end(store.studies.begin(Study(answer=answer, device_name=MARKUP)))


def machine() -> Catalog:
    able = tuple(PrecisionEntry(precision=name, available=True, note=MARKUP) for name in Precision)
    return Catalog(
        devices=(DeviceEntry(name="cpu", title=MARKUP, memory_mib=16_384, precisions=able),),
        models=(ModelEntry(name=f"{MARKUP}net", task="classification", reason=MARKUP),),
        datasets=(DatasetEntry(name=f"{MARKUP}data", title=MARKUP, task="classification"),),
    )


@pytest.fixture
def window(start: Callable[[], MainWindow], store: Store, profiles: Profiles) -> MainWindow:
    folder = own_presets_folder()
    folder.mkdir(parents=True)
    preset = {"title": MARKUP, "about": MARKUP, "experiment": NAMED}
    (folder / "theirs.toml").write_text(tomli_w.dumps(preset), encoding="utf-8")
    (folder / "broken.toml").write_text(f'title = "{MARKUP}', encoding="utf-8")
    fill(store, profiles)
    window = start()
    window.experiments.catalog_known.emit(machine())
    return window


@pytest.mark.slow
def test_no_name_is_rendered_on_any_page_and_no_code_is_run(window: MainWindow, qtbot: QtBot) -> None:
    runs = window.experiments.runs.records()
    window.setup.choose_preset("theirs")
    window.setup.use_settings(runs[0].experiment)
    window.runs.set_checked([run.id for run in runs if run.comparison][:2])
    for behind in ("queue", "log"):
        window.backstage.show_page(behind)
    window.show_page("compare")
    for run in runs:
        window.runs.open_requested.emit(run.id)
    window.notice.notify(MARKUP, MARKUP, action=MARKUP, do=lambda: None)
    others = window.others
    shown = {
        "compare": window.live,
        "limit": others.limit_panel,
        "results": others.compare,
        "profile": others.profile_panel,
        "sweep": others.sweep_panel,
    }
    for page in (*QUESTIONS, "results", "show"):
        window.show_page(page)
        if page in shown:
            part = shown[page]
            qtbot.waitUntil(lambda part=part: names_in(part) > 0)
        assert markup_in(window) == set(), page
    for part in (window.setup, window.runs, window.notice):
        assert names_in(part) > 0
    assert "was_run" not in sys.modules

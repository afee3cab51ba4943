"""Studies of every kind are saved as they go on, listed without their answers, and opened again whole."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.answer import Answer
from engine.protocol.numerics import (
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Operation,
    PrecisionMap,
)
from engine.protocol.profile import Bar, StepPart, StepProfile, profiles_of
from engine.protocol.trials import Limit, LimitSide, MemoryLine, Trial
from engine.protocol.tune import Tuning, TuningTrial
from engine.store.saved.studies import Study, traces_of
from engine.store.store import Store

ROOT = Path(__file__).parents[3]
FP32, BF16 = (Experiment(precision=name) for name in (Precision.FP32, Precision.BF16))
PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Use a smaller batch.")
SEARCH = NonfiniteSearch(sentence="All numbers are finite.", least_scale=float("inf"))
MAP = PrecisionMap(operations=(Operation(module="fc", name="aten.mm", direction="forward"),))
BAR = Bar.of([(StepPart.MATRIX, 3.0), (StepPart.HOST, 1.0)])
PROFILE = StepProfile(
    device_type="cpu", steps=3, samples=8, step_ms=4.0, recorded_ms=4.4, bar=BAR, format="fp32"
)
FITS = Trial(batch_size=8, fits=True, peak_mib=100.0, steps=3)
LINE = MemoryLine(fixed_mib=1.0, per_sample_mib=0.5)
SIDE = LimitSide(label="FP32", experiment=FP32, trials=(FITS,), budget_mib=12.0, forecast=(LINE,))
LIMIT = Limit(sides=(SIDE, LimitSide(label="BF16 AMP", experiment=BF16)), margin_fraction=0.2)
NUMERICS = Numerics(experiment=BF16, parts=("map", "nan"), results=NumericsResults(map=MAP, nan=SEARCH))
TIMING = profiles_of([FP32, BF16]).with_side(0, profile=PROFILE).with_side(1, problem=PROBLEM)
TUNING = Tuning(experiment=FP32, trials=(TuningTrial(round=1, changes={}, steps=5, seconds=1.0),))
KNOWN: tuple[Answer, ...] = (LIMIT, NUMERICS, TIMING, TUNING)


def begun(store: Store, answer: Answer = NUMERICS, **changes: Any) -> Study[Any]:
    return store.studies.begin(Study(answer=answer, device_name="a card", **changes))


@pytest.mark.parametrize("answer", KNOWN, ids=lambda answer: answer.kind)
def test_a_study_is_opened_again_whole_and_asked_afresh(store: Store, path: Path, answer: Answer) -> None:
    study = begun(store, answer.afresh())
    with Store(path) as other:
        assert other.studies.newest() == () and not other.studies.find(study.id).is_known
    store.studies.save(replace(study, answer=answer, doing="something", trains="a run"))
    with Store(path) as other:
        assert not other.studies.find(study.id).is_over
    ended = store.studies.end(replace(study, answer=answer, problem=PROBLEM))
    with Store(path) as other:
        saved = other.studies.find(study.id)
        (entry,) = other.studies.newest(answer.kind)
    assert saved == ended and saved.answer == answer and saved.is_over and saved.problem == PROBLEM
    assert (entry.id, entry.number, entry.device_name, entry.is_over) == (study.id, 1, "a card", True)
    assert entry.title == answer.title and entry.digest == answer.digest
    assert answer.afresh().experiments == answer.experiments and not answer.afresh().is_known


def test_what_is_tried_at_the_moment_is_not_saved(store: Store) -> None:
    study = begun(store, LIMIT.with_side(0, SIDE.model_copy(update={"trying": 64})))
    assert store.studies.find(study.id).answer == LIMIT


def test_the_newest_of_a_kind_comes_first_with_a_number_of_its_own(store: Store) -> None:
    first, second, third = begun(store), begun(store), begun(store, LIMIT)
    assert [study.name for study in (first, second, third)] == ["Numerics 1", "Numerics 2", "Limit 1"]
    assert [entry.id for entry in store.studies.newest("numerics")] == [second.id, first.id]
    assert {entry.id for entry in store.studies.newest()} == {first.id, second.id, third.id}
    assert [entry.id for entry in store.studies.newest("numerics", 1)] == [second.id]


def test_one_that_cannot_be_read_hides_no_other_and_says_so(store: Store, path: Path) -> None:
    hurt, kept = begun(store), begun(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE studies SET answer = '{', runs = '{', checksum = NULL WHERE id = ?", (hurt.id,)
        )
    assert [entry.id for entry in store.studies.newest()] == [kept.id]
    with pytest.raises(ProblemError, match=r"Numerics 1 cannot be read") as caught:
        store.studies.find(hurt.id)
    assert caught.value.problem.kind is Kind.STORE


def test_a_deleted_study_is_gone_with_its_traces_and_its_place_in_the_queue(store: Store) -> None:
    study, other = begun(store, TIMING), begun(store, TIMING)
    for each in (study, other):
        trace = store.studies.traces.path(each.id, 0)
        trace.parent.mkdir(exist_ok=True)
        trace.touch()
    store.studies.delete(study.id)
    assert not store.studies.traces.path(study.id, 0).exists()
    assert store.studies.traces.path(other.id, 0).exists()
    with pytest.raises(ProblemError) as caught:
        store.studies.find(study.id)
    assert caught.value.problem.kind is Kind.REQUEST


def test_a_deleted_study_is_restored_with_its_number_and_its_traces(store: Store) -> None:
    first, other = (store.studies.end(begun(store, TIMING)) for _ in range(2))
    trace = store.studies.traces.path(first.id, 0)
    trace.parent.mkdir(exist_ok=True)
    trace.touch()
    saved = store.studies.find(first.id)
    store.studies.delete(first.id, keeps_traces=True)
    for _ in range(2):
        store.studies.restore(saved)
    assert store.studies.find(first.id) == saved and trace.exists()
    assert [entry.id for entry in store.studies.newest()] == [other.id, first.id]
    store.studies.delete(first.id, keeps_traces=True)
    store.studies.clean_up()
    assert not trace.exists()


@pytest.mark.skipif(os.name != "posix", reason="Windows removes no file that is open")
def test_a_study_is_saved_whole_where_the_store_is_taken_away(store: Store, path: Path) -> None:
    study = begun(store, LIMIT.afresh())
    path.unlink()
    store.studies.save(replace(study, answer=LIMIT))
    path.unlink()
    ended = store.studies.end(replace(study, answer=LIMIT))
    with Store(path) as other:
        assert other.studies.find(study.id) == ended


def test_a_study_outlives_its_run(store: Store) -> None:
    run = store.add(FP32)
    study = begun(store, NUMERICS.model_copy(update={"run_id": run.id}))
    store.remove([run.id])
    assert store.studies.find(study.id).answer.results == NUMERICS.results


def test_the_newest_profile_of_exactly_these_runs_is_found(store: Store) -> None:
    def profiled(*run_ids: str | None) -> str:
        profiles = profiles_of([FP32] * len(run_ids), run_ids)
        return begun(store, profiles.with_side(0, profile=PROFILE)).id

    profiled("a", "b")
    newest, alone = profiled("a", "b"), profiled("a")
    profiled("b", "a")
    begun(store, profiles_of([FP32, FP32], ["a", "b"]))
    assert store.studies.newest_of_runs("profile", ["a", "b"]) == newest
    assert store.studies.newest_of_runs("profile", ["a"]) == alone
    assert store.studies.newest_of_runs("profile", ["c"]) is None


ELSEWHERE = """
import sys
from pathlib import Path
from engine.store.store import Store

store = Store(Path(sys.argv[1]))
study = store.studies.find(sys.argv[2])
store.studies.begin(study)
print("claimed", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_carries_a_study_on(store: Store, path: Path) -> None:
    study = begun(store, TUNING)
    store.studies.release(study.id)
    command = [sys.executable, "-c", ELSEWHERE, os.fspath(path), study.id]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "claimed\n"
        for refused in (lambda: store.studies.begin(study), lambda: store.studies.delete(study.id)):
            with pytest.raises(ProblemError, match="Tuning 1 is running in another instance of Ammeter"):
                refused()
        other.kill()
    assert store.studies.begin(study).number == 1


def test_traces_are_found_beside_the_store_alone(store: Store, tmp_path: Path) -> None:
    trace = store.studies.traces.path("a", 0)
    trace.parent.mkdir()
    secret = tmp_path / "secret"
    secret.touch()
    profiles = profiles_of([FP32]).with_side(0, profile=PROFILE.model_copy(update={"trace": trace.name}))
    assert traces_of(profiles, trace.parent) == ()
    trace.touch()
    assert traces_of(profiles, trace.parent) == (trace,)
    trace.unlink()
    trace.symlink_to(secret)
    assert traces_of(profiles, trace.parent) == ()


def test_only_traces_without_a_study_are_swept_wherever_their_folder_leads(store, tmp_path):
    (tmp_path / "documents").mkdir()
    mine = [tmp_path / "documents" / name for name in ("my-thesis.pdf", "a-1.json.gz.txt", ".x-y")]
    old = tmp_path / "documents" / "0123456789ab-1.json.gz"
    (store.path.parent / "traces").symlink_to(tmp_path / "documents", target_is_directory=True)
    kept = store.studies.traces.path(begun(store, TIMING).id, 0)
    for path in (*mine, old, kept):
        path.touch()
    store.recover()
    assert all(path.exists() for path in (*mine, kept)) and not old.exists()


def test_an_id_from_elsewhere_leads_to_no_other_folder(store: Store) -> None:
    folder = store.studies.traces.folder
    for study_id in ("../../x", "/etc/x", "..\\x", "*"):
        assert store.studies.traces.path(study_id, 0).resolve().parent == folder.resolve()

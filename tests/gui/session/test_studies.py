"""Studies that wait and that are saved, and what can be studied of saved runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Log, Phase, PhaseName
from engine.protocol.numerics import NonfiniteSearch, Numerics, NumericsResults
from engine.protocol.profile import Profiles, profiles_of
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.session.engine_thread import EngineThread
from gui.session.experiments import Experiments
from gui.session.studies import Studies, baseline_first, why_not_profiled
from tests.gui.conftest import CARD

SMALL_CNN = Experiment(model="small-cnn")
ASKED = Numerics(experiment=SMALL_CNN, parts=("map", "nan"))
NOTHING = NonfiniteSearch(steps=1, sentence="Every number was finite.")
KNOWN = ASKED.model_copy(update={"results": NumericsResults(nan=NOTHING)})
LINEAR = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}


@pytest.fixture
def thread(saved: Store, tmp_path: Path) -> Iterator[EngineThread]:
    thread = EngineThread(tmp_path / "ammeter.sqlite", Launcher())
    yield thread
    thread.shut_down()


@pytest.fixture
def studies(saved: Store, thread: EngineThread) -> Studies[Numerics]:
    return Studies("numerics", saved, thread)


def put(store: Store, answer: Numerics | Profiles) -> str:
    return store.studies.end(store.studies.begin(Study(answer=answer, device_name="A card"))).id


def test_one_that_waits_is_shown_and_taken_out(studies: Studies[Numerics]) -> None:
    ended: list[str] = []
    studies.ended.connect(ended.append)
    key = studies.submit(ASKED)
    view = studies.view(key)
    assert view is not None and view.is_waiting and view.answer == ASKED and studies.waiting == 1
    studies.stop(key)
    assert studies.waiting == 0 and ended == [key] and studies.view(key) is None


def test_saved_ones_are_listed_newest_first_without_those_of_which_nothing_is_known(
    studies: Studies[Numerics], saved: Store
) -> None:
    first, second, empty = (put(saved, answer) for answer in (KNOWN, KNOWN, ASKED))
    other_kind = put(saved, profiles_of([SMALL_CNN]))
    assert studies.saved() == [second, first]
    assert studies.view(empty) is None and studies.view(other_kind) is None
    view = studies.view(first)
    assert view is not None and view.answer == KNOWN and view.device_name == "A card"
    studies.delete(first)
    assert studies.saved() == [second] and studies.view(first) is None


def test_one_in_progress_is_shown_as_its_snapshots_come_and_kept_as_it_ended(
    qtbot: QtBot, studies: Studies[Numerics], thread: EngineThread
) -> None:
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Use a smaller batch.")
    logged: list[tuple[str, str, object]] = []
    studies.logged.connect(lambda *line: logged.append(line))
    key = studies.submit(ASKED)
    thread.job_began.emit(key)
    study = Study(id=key, answer=ASKED, number=1, device_name="A card")
    told = (study, Log(message="Begun."), Phase(name=PhaseName.NUMERICS, fraction=0.5))
    for known in told:
        thread.job_event.emit(key, known)
    view = studies.view(key)
    assert view is not None and view.is_live and studies.running == key
    assert (view.device_name, view.doing, view.fraction) == ("A card", "diagnosing", 0.5)
    assert logged == [("info", "Begun.", "Numerics, small-cnn")]
    for known in (replace(study, answer=KNOWN), Failed(problem=problem)):
        thread.job_event.emit(key, known)
    with qtbot.waitSignal(studies.ended):
        thread.job_ended.emit(key, problem)
    view = studies.view(key)
    assert view is not None and not view.is_unfinished and view.problem == problem
    assert view.answer == KNOWN and view.fraction is None


def test_a_stopped_one_of_which_nothing_became_known_is_gone(
    studies: Studies[Numerics], thread: EngineThread
) -> None:
    key = studies.submit(ASKED)
    thread.job_began.emit(key)
    thread.job_ended.emit(key, None)
    assert studies.view(key) is None and studies.running is None


@pytest.fixture
def catalog(saved: Store) -> Catalog:
    with Launcher(Target.THREAD) as launcher:
        return Runner(saved, launcher).catalog()


@pytest.fixture
def experiments(saved: Store, qtbot: QtBot) -> Iterator[Experiments]:
    experiments = Experiments(saved, Launcher())
    yield experiments
    experiments.shut_down()


def test_a_profile_is_of_exactly_its_runs_in_their_order(
    experiments: Experiments, saved: Store, trained: Callable[..., RunRecord], profiles: Profiles
) -> None:
    half, single = trained("fp16", 200.0), trained("fp32", 100.0)
    runs = baseline_first([half, single])
    assert runs == (single, half)
    ids = [run.id for run in runs]
    asked = profiles_of([run.experiment for run in runs], ids)
    _, kept = (put(saved, asked.with_side(0, profile=profiles.sides[0].profile)) for _ in range(2))
    experiments.runs.reload()
    assert experiments.find_profile(ids) == kept
    assert experiments.find_profile(ids[:1]) is None and experiments.find_profile(ids[::-1]) is None
    assert experiments.why_not_profiled(ids) is None, "a saved profile can always be opened"
    saved.studies.delete(kept)
    assert experiments.find_profile(ids) not in (None, kept)
    waiting = experiments.profiles.submit(asked)
    assert experiments.find_profile(ids) == waiting


def test_a_run_that_cannot_be_profiled_here_says_why(
    trained: Callable[..., RunRecord], catalog: Catalog
) -> None:
    machine = CARD.model_copy(update={"device_name": catalog.devices[-1].title})
    here = trained("fp32", 100.0, settings=LINEAR, machine=machine)
    assert why_not_profiled([here], catalog) is None
    elsewhere = trained("fp32", 100.0, settings=LINEAR, name="away")
    told = why_not_profiled([here, elsewhere], catalog)
    assert told == "“away” trained on A card, which is not in this machine."
    no_card = trained("fp32", 100.0, settings={**LINEAR, "device": "cuda:7"}, name="card")
    told = why_not_profiled([no_card], catalog)
    assert told == "“card” cannot be trained here: There is no device named 'cuda:7'."
    assert "At most 8 runs" in (why_not_profiled([here] * 9, catalog) or "")
    assert "still examining" in (why_not_profiled([here], None) or "")

"""Studies that wait and that are saved, and what can be studied of saved runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

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
from gui.session.experiments import Experiments
from gui.session.kinds import baseline_first, why_not_profiled, why_nothing_to_find
from gui.session.views import StudyView
from tests.gui.conftest import CARD

SMALL_CNN = Experiment(model="small-cnn")
ASKED = Numerics(experiment=SMALL_CNN, parts=("map", "nan"))
NOTHING = NonfiniteSearch(steps=1, sentence="Every number was finite.")
KNOWN = ASKED.model_copy(update={"results": NumericsResults(nan=NOTHING)})
LINEAR = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}


@pytest.fixture
def experiments(saved: Store, qtbot: QtBot) -> Iterator[Experiments]:
    experiments = Experiments(saved, Launcher())
    yield experiments
    experiments.shut_down()


def put(store: Store, answer: Numerics | Profiles) -> str:
    return store.studies.end(store.studies.begin(Study(answer=answer, device_name="A card"))).id


def view_of(experiments: Experiments, key: str) -> StudyView[Numerics] | None:
    view = experiments.works.view(key)
    assert view is None or isinstance(view, StudyView)
    return view


def test_one_that_waits_is_shown_and_taken_out(experiments: Experiments) -> None:
    works, ended = experiments.works, list[str]()
    works.ended.connect(ended.append)
    key = experiments.submit_study(ASKED)
    view = view_of(experiments, key)
    assert view is not None and view.is_waiting and view.answer == ASKED and works.of("numerics") == (view,)
    works.stop(key)
    assert works.of("numerics") == () and ended == [key] and works.view(key) is None


def test_saved_ones_are_listed_newest_first_without_those_of_which_nothing_is_known(
    experiments: Experiments, saved: Store
) -> None:
    works = experiments.works
    first, second, empty = (put(saved, answer) for answer in (KNOWN, KNOWN, ASKED))
    put(saved, profiles_of([SMALL_CNN]))
    assert works.saved("numerics") == (second, first) and works.newest("numerics") == second
    assert works.view(empty) is None
    view = view_of(experiments, first)
    assert view is not None and view.answer == KNOWN and view.device_name == "A card"
    undo = works.delete(first)
    assert works.saved("numerics") == (second,) and works.view(first) is None and undo is not None
    undo()
    assert works.saved("numerics") == (second, first)


def test_one_in_progress_is_shown_as_its_snapshots_come_and_kept_as_it_ended(
    qtbot: QtBot, experiments: Experiments
) -> None:
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Use a smaller batch.")
    works, thread, logged = experiments.works, experiments._thread, list[tuple[str, str, object]]()
    works.logged.connect(lambda *line: logged.append(line))
    key = experiments.submit_study(ASKED)
    thread.began.emit(key)
    study = Study(id=key, answer=ASKED, number=1, device_name="A card")
    told = (study, Log(message="Begun."), Phase(name=PhaseName.NUMERICS, fraction=0.5))
    for known in told:
        thread.reported.emit(key, known)
    view = view_of(experiments, key)
    assert view is not None and view.is_live and works.running == key and works.in_progress == "numerics"
    assert (view.device_name, view.doing, view.fraction) == ("A card", "diagnosing", 0.5)
    assert logged == [("info", "Begun.", "Numerics, small-cnn")]
    for known in (replace(study, answer=KNOWN), Failed(problem=problem)):
        thread.reported.emit(key, known)
    with qtbot.waitSignal(works.ended):
        thread.ended.emit(key, problem)
    view = view_of(experiments, key)
    assert view is not None and not view.is_unfinished and view.problem == problem
    assert view.answer == KNOWN and view.fraction is None


def test_a_stopped_one_of_which_nothing_became_known_is_gone(experiments: Experiments) -> None:
    works, thread = experiments.works, experiments._thread
    key = experiments.submit_study(ASKED)
    thread.began.emit(key)
    thread.ended.emit(key, None)
    assert works.view(key) is None and works.running is None


@pytest.fixture
def catalog(saved: Store) -> Catalog:
    with Launcher(Target.THREAD) as launcher:
        return Runner(saved, launcher).catalog()


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
    waiting = experiments.submit_study(asked)
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
    script = trained("fp32", 100.0, settings={"command": {"line": "python train.py"}}, name="script")
    assert "A script cannot be profiled" in (why_not_profiled([here, script], catalog) or "")
    assert "A script's numerics" in (why_nothing_to_find(script) or "")
    assert "At most 8 runs" in (why_not_profiled([here] * 9, catalog) or "")
    assert "still examining" in (why_not_profiled([here], None) or "")

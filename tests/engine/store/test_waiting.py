"""The saved queue: its order, what a window that is gone left in it, and what leaves it when work begins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.experiment.experiment import Experiment
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.protocol.numerics import Numerics
from engine.protocol.tune import Tuning
from engine.store.record import RUN, Status, Work
from engine.store.saved.studies import Study
from engine.store.store import Store

ROOT = Path(__file__).parents[3]
LIMIT, PROFILE = (
    Work("limit-1", "limit", "A limit", "{}"),
    Work("profile-1", "profile", "A profile"),
)

FILLER = """
import sys
from pathlib import Path
from engine.experiment.experiment import Experiment
from engine.store.record import RUN, Work
from engine.store.store import Store

store = Store(Path(sys.argv[1]))
without_place = store.add(Experiment(), name="without a place")
run = store.add(Experiment(), name="a run")
limit = Work("limit-1", "limit", "A limit", "{}", True)
store.waiting.save([Work(run.id, RUN, run.name), limit])
store.waiting.rests = True
print(without_place.id, run.id, flush=True)
sys.stdin.read()
"""


def keys(store: Store) -> tuple[str, ...]:
    return tuple(work.key for work in store.waiting.claimable())


def test_work_keeps_the_order_in_which_it_is_saved(store: Store) -> None:
    first = Work("numerics-1", "numerics", "Numerics", is_paused=True)
    store.waiting.save([LIMIT, PROFILE])
    store.waiting.save([first, LIMIT, PROFILE])
    assert store.waiting.claimable() == (first, LIMIT, PROFILE)
    store.waiting.save([PROFILE, first, LIMIT])
    assert store.waiting.claimable() == (PROFILE, first, LIMIT)
    store.waiting.remove([PROFILE.key, first.key])
    assert store.waiting.claimable() == (LIMIT,)


def test_what_begins_leaves_the_queue_at_once(store: Store) -> None:
    runs = [store.add(Experiment()) for _ in range(3)]
    store.waiting.save([*(Work(run.id, RUN, run.name) for run in runs), LIMIT, PROFILE])
    store.begin(runs[0].id)
    store.delete([runs[1].id])
    store.withdraw(runs[2].id)
    for item in (LIMIT, PROFILE):
        store.studies.begin(Study(id=item.key, answer=Numerics(experiment=Experiment())))
    assert keys(store) == ()


def test_what_goes_on_keeps_its_place_until_it_is_over(store: Store) -> None:
    store.waiting.save([PROFILE])
    study = Study(id=PROFILE.key, answer=Tuning(experiment=Experiment()))
    store.studies.end(store.studies.begin(study, keeps_place=True))
    assert keys(store) == (PROFILE.key,)
    store.studies.delete(study.id)
    assert keys(store) == ()


def test_a_sweep_waits_until_it_is_over_or_deleted(store: Store) -> None:
    grid = grid_of(Experiment().model_dump(mode="json"), [Axis(key="steps", values=(10, 20))])
    ended, deleted = (store.sweeps.add(name, grid, Plan(), device_name="a card") for name in ("a", "b"))
    store.waiting.save([Work(key, "sweep", "A sweep") for key in (ended, deleted)])
    store.sweeps.claim(ended)
    assert keys(store) == (ended, deleted)
    store.sweeps.end(ended)
    store.sweeps.delete(deleted)
    assert keys(store) == ()


def test_what_a_killed_window_left_can_be_taken_over_by_a_single_other(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FILLER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as window:
        assert window.stdout is not None
        without_place, run_id = window.stdout.readline().split()
        with Store(path) as store:
            run = Work(run_id, RUN, "a run")
            assert store.waiting.claimable() == () and not store.waiting.rests
            for item in (run, Work("limit-1", "limit", "A limit")):
                (problem,) = store.waiting.claim([item]).values()
                assert problem is not None and "another instance of Ammeter" in problem.message
        window.kill()
    with Store(path) as store:
        left = store.waiting.claimable()
        assert [(item.key, item.is_paused) for item in left] == [
            (run_id, False), ("limit-1", True), (without_place, False)
        ]  # fmt: skip
        assert store.waiting.rests and left[1].request == "{}"
        assert set(store.waiting.claim(left).values()) == {None}
        store.waiting.save(left[::-1])
        store.waiting.rests = False
        assert keys(store) == (without_place, "limit-1", run_id) and not store.waiting.rests
        store.begin(run_id)
        assert store.run(run_id).status is Status.RUNNING
        store.waiting.remove(["limit-1"])
        not_queued, gone = store.waiting.claim([run, left[1]]).values()
        assert not_queued is not None and gone is not None
        assert "not queued" in not_queued.message and "no longer in the queue" in gone.message


WORKER = """
import sys
from dataclasses import replace
from pathlib import Path
from engine.experiment.experiment import Experiment
from engine.protocol.events import Finished, Summary
from engine.experiment.problem import Kind, Problem
from engine.protocol.profile import profiles_of
from engine.store.record import RUN
from engine.store.saved.studies import Study
from engine.store.store import Store

problem = Problem(kind=Kind.INTERNAL, message="Done.", remedy="None.")

store = Store(Path(sys.argv[1]))
store.recover()
left = store.waiting.claimable()
print("claims", flush=True)
store.waiting.claim(left)
for item in left:
    print(item.key, flush=True)
    if item.kind == RUN:
        store.begin(item.key)
        store.record(item.key, [Finished(summary=Summary())])
    else:
        study = store.studies.begin(Study(id=item.key, answer=profiles_of([Experiment()])))
        store.studies.end(replace(study, problem=problem))
"""


def test_kills_at_any_moment_lose_nothing_and_nothing_begins_twice(store: Store, path: Path) -> None:
    works: list[Work] = []
    for number in range(40):
        item = Work(f"profile-{number}", "profile", "A profile")
        if number % 2:
            run = store.add(Experiment())
            item = Work(run.id, RUN, run.name)
        works.append(item)
    store.waiting.save(works)
    owner = store._connection.read("SELECT owner FROM waiting")[0]["owner"]
    gone = owner.replace(f'"pid":{os.getpid()}', '"pid":99999999')
    for table in ("waiting", "runs"):
        store._connection.read(f"UPDATE {table} SET owner = ?", (gone,))
    begun: list[str] = []
    # lines to read before the kill: at the claims, at the first item, in the middle, and never
    for lines in (1, 2, 14, 1_000):
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as worker:
            assert worker.stdout is not None
            told = [line.strip() for _, line in zip(range(lines), worker.stdout, strict=False)]
            if lines < 1_000:
                worker.kill()
            begun += [line.strip() for line in (*told, *worker.stdout) if line.strip() != "claims"]
    assert worker.returncode == 0 and store.waiting.claimable() == ()
    # an item that was named before a kill may not have begun
    assert list(dict.fromkeys(begun)) == [work.key for work in works] and len(begun) <= len(works) + 3
    # one that was killed between its begin and its end is saved too, without a result
    assert all(store.studies.find(work.key).number for work in works if work.kind == "profile")
    assert len(store.studies.newest("profile")) >= 17
    states = [run.status for run in store.runs()]
    assert states.count(Status.FINISHED) >= 17 and Status.QUEUED not in states

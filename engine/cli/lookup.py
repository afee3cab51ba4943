"""What the verbs find in the store by the beginning of an id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from engine.cli import output
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.value import shortened
from engine.store.store import Store

RUN, SWEEP, STUDY = "run", "sweep", "study"

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id of a run, sweep or study, or any unambiguous beginning of it."),
]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Ids of runs, sweeps or studies, or their unambiguous beginnings."),
]


class Found(NamedTuple):
    """A run, sweep or study in the store."""

    kind: str
    id: str


def find(store: Store, start: str) -> Found:
    """The only run, sweep or study whose id starts so. Raises ProblemError."""
    found = [Found(RUN, run_id) for run_id in store.starting(start)]
    found += [Found(SWEEP, sweep_id) for sweep_id in store.sweeps.starting(start)]
    found += [Found(STUDY, study_id) for study_id in store.studies.starting(start)]
    if len(found) == 1:
        return found[0]
    shown = shortened(start)
    if found:
        ids = ", ".join(each.id for each in found[:_MOST_IDS])
        message = f"'{shown}' is the start of more than one id: {ids}."
        raise ProblemError(request_problem(message, "Give more of the id.", key="id", value=start))
    message = f"There is no run, sweep or study whose id starts with '{shown}'."
    raise ProblemError(request_problem(message, "See the ids with `ammeter results`.", key="id", value=start))


_MOST_IDS = 6


@contextmanager
def saved_results(*, writes: bool = False) -> Iterator[Store]:
    """The store, in which runs whose process is gone count as interrupted.

    Where nothing can be saved, a verb that `writes` gets a ProblemError, any other a warning on stderr.
    """
    with Store() as store:
        store.recover()
        for note in store.notes:
            output.aside(note)
        if writes:
            store.check_writable()
        elif store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield store

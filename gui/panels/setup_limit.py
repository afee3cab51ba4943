"""Whether the form can be searched for its largest batch, and as what: batch and length are of no concern."""

from __future__ import annotations

from dataclasses import replace

from engine.catalog import Catalog
from gui.card_sizes import usual_gib
from gui.panels.request import Request
from gui.panels.setup_check import Outcome, request, sentence
from gui.panels.setup_draft import Draft

_OF_NO_CONCERN = ("batch_size", "epochs", "steps", "repeat")


def limit_reason(outcome: Outcome) -> str | None:
    """Why the form cannot be searched, in a sentence; None if it can."""
    grave = [problem for key, problem in outcome.problems.items() if key not in _OF_NO_CONCERN]
    if grave:
        return sentence(grave[0])
    return None if outcome.experiments else outcome.reason


def limit_request(
    draft: Draft | None, outcome: Outcome, catalog: Catalog | None, cpu_limit_gib: float | None = None
) -> Request | None:
    """What pressing the button would search; None while something is wrong.

    `cpu_limit_gib` holds on a CPU where the form has no memory cap, in place of the usual limit.
    """
    if draft is None or catalog is None or limit_reason(outcome) is not None:
        return None
    return request(draft, _limited(outcome, catalog, cpu_limit_gib))


def limit_words(draft: Draft) -> str:
    """What the button says: "Find limit for 2 precisions"."""
    count = len(draft.ticked)
    if count == 1:
        return f"Find limit for {draft.ticked[0].label}"
    return f"Find limit for {count} precisions" if count else "Find limit"


def limit_plan(draft: Draft) -> str:
    """What pressing the button will do."""
    return "A few trials in each precision" if len(draft.ticked) > 1 else "A few trials"


def _limited(outcome: Outcome, catalog: Catalog, cpu_limit_gib: float | None) -> Outcome:
    """A CPU has no card whose memory could be the limit. What holds in its place is for the search alone: a
    run under a cap has no speed on a CPU."""
    pairs = []
    for label, experiment in outcome.experiments:
        usual = usual_gib(catalog.device(experiment.device))
        if experiment.memory_cap_gib is None and usual is not None:
            experiment = experiment.model_copy(update={"memory_cap_gib": cpu_limit_gib or usual})
        pairs.append((label, experiment))
    return replace(outcome, experiments=tuple(pairs))

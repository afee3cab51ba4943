"""Whether the form can be searched for its largest batch, and as what: batch and length are of no concern."""

from __future__ import annotations

from engine.catalog import Catalog, DeviceEntry
from gui.panels.setup_check import Outcome, Request, request, sentence
from gui.panels.setup_draft import Draft

_OF_NO_CONCERN = ("batch_size", "epochs", "steps")
_NO_LIMIT = "A CPU has no card whose memory could be the limit: choose a limit above the chart."


def limit_reason(outcome: Outcome, catalog: Catalog | None) -> str | None:
    """Why the form cannot be searched, in a sentence; None if it can."""
    grave = [problem for key, problem in outcome.problems.items() if key not in _OF_NO_CONCERN]
    if grave:
        return sentence(grave[0])
    if not outcome.experiments:
        return outcome.reason
    if catalog is None:
        return None
    is_endless = any(
        experiment.memory_cap_gib is None and _is_cpu(catalog.device(experiment.device))
        for _, experiment in outcome.experiments
    )
    return _NO_LIMIT if is_endless else None


def limit_request(draft: Draft | None, outcome: Outcome, catalog: Catalog | None) -> Request | None:
    """What pressing the button would search; None while something is wrong."""
    if draft is None or catalog is None or limit_reason(outcome, catalog) is not None:
        return None
    return request(draft, outcome)


def limit_words(draft: Draft) -> str:
    """What the button says: "Find limit for 2 precisions"."""
    count = len(draft.ticked)
    if count == 1:
        return f"Find limit for {draft.ticked[0].label}"
    return f"Find limit for {count} precisions" if count else "Find limit"


def limit_plan(draft: Draft) -> str:
    """What pressing the button will do."""
    return "A few trials in each precision" if len(draft.ticked) > 1 else "A few trials"


def _is_cpu(device: DeviceEntry | None) -> bool:
    return device is not None and not device.is_gpu

"""The view of the fewest modules that must stay in FP32: the answer, its price and its proof."""

from __future__ import annotations

from engine.protocol.numerics.numerics import Islands, IslandTrial
from engine.words.numbers import NONE, counted, memory_text, number, share_text, times
from gui.widgets import label
from gui.widgets.answer_page import AnswerPage, facts, names_words, wrapped
from gui.widgets.boxes import Part
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

_NOTHING_YET = (
    "Which modules must stay in FP32?",
    "Short runs with some of the modules in FP32 find the fewest with which training is as good as in FP32 "
    "alone. This takes minutes.",
    "Find them",
    "Find them for the form's experiment",
)
_PROVEN = "None can be left out: for each there is a trial without it that was worse than FP32."
_NOT_PROVEN = "Fewer may do: not every one of them has been left out in a trial."
_CRITERION = "A trial is good if its loss stays within the band of repeated FP32 runs, never NaN or infinite"
_COLUMNS: tuple[Column[IslandTrial], ...] = (
    Column(
        "Kept in FP32",
        lambda trial: names_words(trial.modules),
        lambda trial: len(trial.modules),
        width=120,
        widest=GROWS,
        about=lambda trial: ", ".join(trial.modules) or "none",
    ),
    Column(
        "Result",
        lambda trial: "as good as FP32" if trial.is_good else trial.reason,
        width=120,
        widest=GROWS,
    ),
    number_column("Last loss", lambda trial: trial.final_loss, number, width=80, absent=NONE),
    number_column("Skipped", lambda trial: trial.skipped, "{:,}".format),
    number_column("Seconds", lambda trial: trial.seconds, "{:,.1f}".format),
)


class IslandsView(AnswerPage):
    """The answer with its button, and the trials as a table."""

    def __init__(self) -> None:
        super().__init__("FP32 modules", *_NOTHING_YET)

    def show_islands(self, islands: Islands | None) -> None:
        """Shows the modules that were found; None for the empty state."""
        if islands is None:
            self.show_empty()
            return
        parts: list[Part] = []
        if islands.modules or islands.changes:
            proof = "" if not islands.modules else _PROVEN if islands.is_minimal else _NOT_PROVEN
            parts.append(self.block(names_words(islands.modules or ()), proof, changes=islands.changes))
        parts.append(facts(_price(islands)))
        table = ResultTable("Trials", _COLUMNS, whole=True)
        table.show_rows(islands.trials)
        parts += [label("Trials", "panelTitle"), wrapped(_criterion(islands), "hint"), table]
        self.show_answer(islands.sentence, *parts)


def _criterion(islands: Islands) -> str:
    share = f", and if at most {share_text(islands.most_skipped_fraction)} of its steps are skipped"
    return f"{_CRITERION}{share if islands.most_skipped_fraction else ''}."


def _price(islands: Islands) -> tuple[tuple[str, str], ...]:
    """The cost of the islands, against the same run without any."""
    speed, memory = "", ""
    if islands.speed_ratio is not None:
        speed = f"{times(islands.speed_ratio)}× that without them"
    if islands.memory_added_mib is not None:
        added = islands.memory_added_mib
        memory = f"{memory_text(abs(added))} {'less' if added < 0 else 'more'} at the peak"
    trials = f"{counted(len(islands.trials), 'run')} of {counted(islands.steps, 'step')}"
    return (("Speed", speed), ("Memory", memory), ("Proven by", trials))

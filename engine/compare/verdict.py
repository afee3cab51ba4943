"""The verdict of a comparison, in pieces of sentences that claim no more than was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.compare.evidence import LITTLE_GAIN, Doubt, Evidence, is_disturbed, likely_reason
from engine.compare.metrics import ACCURACY, ENERGY, LOSS, PEAK_MEMORY, SPEED, MetricCell, energy_of
from engine.compare.observed import observed_sentence
from engine.compare.payback import payback_sentence
from engine.compare.sides import Side, differing_axes, training_differences
from engine.compare.split import Split
from engine.experiment.experiment import Precision
from engine.protocol.summary import Energy
from engine.words.names import sample_unit
from engine.words.numbers import number, number_text, times

_LEAST_SECONDS = 5.0  # a GPU's counter moves some ten times a second: in less time its steps would show
_LEAST_DIFFERENCE = 0.03  # two repeats on the same GPU, one on a warmer GPU, differ by as much


def claimed_energy(
    side: Side, baseline: Side, cells: Mapping[str, MetricCell], doubts: Sequence[Doubt]
) -> float | None:
    """Return the energy of `side` relative to the baseline for the same samples, if a headline may claim it.

    All runs must be measured by one counter for some seconds, undisturbed, in the same training, and differ
    clearly.
    """
    cell = cells.get(ENERGY.name)
    ratio = None if cell is None else cell.ratio
    if cell is None or ratio is None or is_disturbed(doubts):
        return None
    if any(doubt.kind == "workload" for doubt in doubts):
        return None
    energies = [energy_of(run) for run in (*side.runs, *baseline.runs)]
    if any(energy is None or energy.seconds < _LEAST_SECONDS for energy in energies):
        return None
    low, high = cell.ratio_interval or (ratio, ratio)
    return None if low <= 1.0 <= high or abs(ratio - 1.0) < _LEAST_DIFFERENCE else ratio


def energy_words(ratio: float) -> str:
    """Return the energy relative to the baseline in words: "41% less energy"."""
    if ratio >= 2:
        return f"{number_text(ratio)} times the energy"
    return f"{100 * abs(1 - ratio):.0f}% {'less' if ratio < 1 else 'more'} energy"


def step_energy_text(energy: Energy) -> str:
    """Return the energy of the measured steps: "4.1 J per step, 273 W on average, of which 62 W idle"."""
    mean, idle = energy.mean_watts, energy.idle_watts
    parts = (
        f"{number(energy.per_step())} J per step",
        f"{number(mean, 0)} W on average" if mean is not None else "",
        f"of which {number(idle, 0)} W idle" if idle is not None else "",
    )
    return ", ".join(filter(None, parts))


Cells = Mapping[str, MetricCell]
VerdictKind = Literal["alone", "baseline", "no-speed", "spoiled", "unlike", "open", "ratio"]


@dataclass(frozen=True)
class Piece:
    """A formatted part of a verdict's sentence: its text, and the role that decides how it is shown.

    An `aside` is in brackets, and `about` names its metric. A piece has the color of its `side` or
    `precision`.
    """

    text: str
    role: Literal["title", "strong", "plain", "aside"] = "plain"
    side: Side | None = None
    about: str = ""
    precision: Precision | None = None

    @property
    def look(self) -> Precision | None:
        """The precision whose color the text has. None for text in the ordinary color."""
        return self.precision if self.side is None else self.side.precision

    @property
    def bare(self) -> str:
        """The text of an aside without its brackets, to be shown by itself."""
        words = self.text.removeprefix(" (").removesuffix(")")
        return f"{self.about}: {words}" if self.about else words


Pieces = tuple[Piece, ...]


def join_pieces(pieces: Iterable[Piece]) -> str:
    """Return the pieces as one text."""
    return "".join(piece.text for piece in pieces)


@dataclass(frozen=True)
class Verdict:
    """The conclusion about one side relative to the baseline. Values that do not apply are None.

    `kind` is the kind of conclusion. `lines` are the answer, `notes` are sentences in small print, and
    `reported_doubts` are the doubts mentioned in either. `speedup` is the measured ratio of speeds, with a
    95% interval from repeats. `energy_ratio` is set only if it is certain enough to be claimed. `accuracy` is
    a clause on the accuracy, or else on the loss.
    """

    kind: VerdictKind
    lines: tuple[Pieces, ...]
    notes: tuple[str, ...]
    reported_doubts: tuple[Doubt, ...]
    speedup: float | None
    speedup_ci: tuple[float, float] | None
    memory_ratio: float | None
    energy_ratio: float | None
    accuracy: str
    reason: str | None

    @property
    def pieces(self) -> Pieces:
        """The lines as pieces of running text."""
        joint = Piece(", " if self.kind == "ratio" else ". ")
        running = [piece for line in self.lines for piece in (joint, *line)]
        return (*running[1:], Piece("."))

    @property
    def sentence(self) -> str:
        """The lines and the notes as running text."""
        return " ".join([join_pieces(self.pieces), *self.notes])


def verdict_of(
    side: Side,
    baseline: Side,
    timed: tuple[Side, Side],
    cells: Cells,
    base_cells: Cells,
    doubts: tuple[Doubt, ...],
    split: Split | None,
    evidence: Mapping[str, Evidence],
    *,
    is_alone: bool = False,
) -> Verdict:
    """Return the verdict on `side`. `cells` are by metric name, `evidence` by run id.

    `timed` are both sides with only the repeats whose times count.
    """
    speed, memory = cells[SPEED.name], cells[PEAK_MEMORY.name]
    if side is baseline:
        kind, lines, notes, cited = _baseline_verdict(side, cells, doubts, is_alone)
        return Verdict(kind, lines, notes, cited, speed.ratio, None, memory.ratio, None, "", None)
    kind = _verdict_kind(speed, doubts)
    quality = _quality(cells, base_cells, of_scripts=side.is_script and baseline.is_script)
    energy_ratio = claimed_energy(*timed, cells, doubts)
    parts: list[Pieces] = []
    if memory.ratio is not None:
        parts.append((Piece("in "), Piece(f"{100 * memory.ratio:.0f}% of the memory", "strong")))
    if energy_ratio is not None:
        parts.append((Piece("using "), Piece(energy_words(energy_ratio), "strong")))
    parts += [quality] if quality else []
    rest = tuple(piece for part in parts for piece in (Piece(", "), *part))[1:]
    if any(doubt.kind == "workload" for doubt in doubts):
        rest = ()
    own = None
    if kind in ("ratio", "open"):
        # the precision's own part of the speed-up, under this side's recipe and batch
        own = None if split is None else split.precision_ratio
        if differing_axes(baseline.runs[0].experiment, side.runs[0].experiment) == ("precision",):
            own = speed.ratio
    is_little = own is not None and own < LITTLE_GAIN and timed[0].id in evidence
    reason = likely_reason(evidence[timed[0].id], timed[1].runs[0]) if is_little else None
    wording = _Wording(side, baseline, speed, base_cells[SPEED.name], rest, doubts)
    lines, notes, cited = wording.words_for(kind)
    if reason is not None and own is not None:
        subject = "It" if own == speed.ratio else "The precision alone"
        is_slower = own < 1 and (own != speed.ratio or kind != "open")
        effect = "was slower" if is_slower else "gained little"
        notes += (f"{subject} {effect} here, likely because {reason}.",)
    if kind in ("ratio", "open"):
        names = join_pieces(_title_pieces(side)), join_pieces(_title_pieces(baseline))
        notes += tuple(filter(None, [payback_sentence(*timed, names, speed)]))
    return Verdict(
        kind,
        lines,
        notes,
        cited,
        speed.ratio,
        speed.ratio_interval,
        memory.ratio,
        energy_ratio,
        join_pieces(quality),
        reason,
    )


def _verdict_kind(speed: MetricCell, doubts: Sequence[Doubt]) -> VerdictKind:
    if speed.ratio is None:
        return "no-speed"
    if is_disturbed(doubts):
        return "spoiled"
    if any(doubt.kind == "workload" for doubt in doubts):
        return "unlike"
    return "open" if is_inconclusive(speed) else "ratio"


def is_inconclusive(cell: MetricCell) -> bool:
    """Return True if the interval of the ratio includes 1, so that neither side is faster."""
    return cell.ratio_interval is not None and cell.ratio_interval[0] <= 1.0 <= cell.ratio_interval[1]


_Words = tuple[tuple[Pieces, ...], tuple[str, ...], tuple[Doubt, ...]]
"""Lines, notes, and the doubts reported in them."""


def _baseline_verdict(
    side: Side, cells: Cells, doubts: Sequence[Doubt], is_alone: bool
) -> tuple[VerdictKind, tuple[Pieces, ...], tuple[str, ...], tuple[Doubt, ...]]:
    speed, accuracy = cells[SPEED.name].value, cells[ACCURACY.name]
    found = tuple(doubt for doubt in doubts if doubt.disqualifies)
    title, trained = _title_pieces(side), ""
    if speed is not None:
        trained = f"trained at {SPEED.text(speed)} {sample_unit(side.runs[0].experiment)}"
        if accuracy.value is not None:
            trained += f" and reached {ACCURACY.text_with_unit(accuracy.value)} accuracy"
    if is_alone and found and trained:
        return "spoiled", (_UNRELIABLE,), (found[0].sentence, f"As measured, it {trained}."), found[:1]
    if is_alone and trained:
        seen = () if side.observed is None else (observed_sentence(side.seen),)
        return "alone", ((*title, Piece(f" {trained}")),), seen, ()
    line = (*title, Piece(" was not measured")) if is_alone else (Piece("Baseline: "), *title)
    if trained:
        return "baseline", (line,), (f"As measured, it {trained}." if found else f"It {trained}.",), ()
    cited = _without_speed(doubts)
    return "alone" if is_alone else "baseline", (line,), tuple(doubt.sentence for doubt in cited), cited


@dataclass(frozen=True)
class _Wording:
    """Words for a verdict. `rest` are the side's memory, claimed energy and accuracy, which stay reliable."""

    side: Side
    baseline: Side
    speed: MetricCell
    base_speed: MetricCell
    rest: Pieces
    doubts: Sequence[Doubt]

    def words_for(self, kind: VerdictKind) -> _Words:
        mine, theirs = _title_pieces(self.side), _title_pieces(self.baseline)
        if kind == "no-speed":
            return self._without_speed()
        ratio = times(self.speed.ratio or 0.0)
        if kind == "spoiled":
            disqualifier = next(doubt for doubt in self.doubts if doubt.disqualifies)
            unlike = [doubt for doubt in self.doubts if doubt.kind == "workload"]
            cited = (disqualifier, *unlike)
            advice = f"The measured ratio of {ratio}× is unreliable.", "Measure again."
            return (_UNRELIABLE,), (*(doubt.sentence for doubt in cited), *advice, *self._rest_note()), cited
        trained = (
            *mine,
            Piece(" trained "),
            Piece(f"{ratio} times", "strong"),
            Piece(" as fast as "),
            *theirs,
        )
        certainty = Piece(f" ({self._certainty()})", "aside")
        if kind == "unlike":
            different = tuple(doubt for doubt in self.doubts if doubt.kind == "workload")
            base, mine_first = self.baseline.first_started, self.side.first_started
            work, *others = training_differences(base.experiment, mine_first.experiment)
            line = (Piece(f"Different {work.what}", "strong"), Piece(f": {work.other} vs. {work.one}"))
            more = tuple(doubt.sentence for doubt in different[1:] if others)
            as_measured = f"As measured, {join_pieces(trained)}. This says nothing about the precision."
            return (line,), (*more, as_measured), different
        if kind == "open":
            lead = (Piece("No significant difference in speed", "strong"), Piece(" between "), *mine)
            aside = Piece(f" ({ratio} times as fast, {self._certainty()})", "aside")
            first = (*lead, Piece(" and "), *theirs, aside)
            return (first, *([(*mine, Piece(" trained "), *self.rest)] if self.rest else [])), (), ()
        return ((*trained, certainty), *([self.rest] if self.rest else [])), (), ()

    def _without_speed(self) -> _Words:
        names = (*_title_pieces(self.side), Piece(" and "), *_title_pieces(self.baseline))
        line = (Piece("The throughput of "), *names, Piece(" cannot be compared"))
        cited = _without_speed(self.doubts)
        reasons = [doubt.sentence for doubt in cited]
        if self.speed.value is not None and self.base_speed.value is not None:
            reasons = [_UNLIKE_SAMPLES[self.side.is_script]]
            cited = ()
        return (line,), (*reasons, *self._rest_note()), cited

    def _rest_note(self) -> tuple[str, ...]:
        return (
            (f"{join_pieces(_title_pieces(self.side))} trained {join_pieces(self.rest)}.",)
            if self.rest
            else ()
        )

    def _certainty(self) -> str:
        if self.speed.ratio_interval is not None:
            low, high = self.speed.ratio_interval
            return f"95% interval {times(low)} to {times(high)}"
        repeats = [len(cell.known) for cell in (self.speed, self.base_speed)]
        if max(repeats) == 1:
            return "one run each: no confidence interval"
        if min(repeats) < 2:
            return "too few repeats: no confidence interval"
        has_outliers = any(doubt.kind == "outliers" for doubt in self.doubts)
        return f"{'outliers on one side' if has_outliers else 'runs not interleaved'}: no confidence interval"


_UNLIKE_SAMPLES = (
    "They measure different kinds of samples.",
    "One counts samples, and the other steps, because its batch size is unknown.",
)
_UNRELIABLE: Pieces = (Piece("Unreliable measurement", "strong"),)


def _title_pieces(side: Side) -> Pieces:
    name = Piece(side.label, "title", side)
    return (name, Piece(f" ({side.note})")) if side.note else (name,)


def _without_speed(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    return tuple(doubt for doubt in doubts if doubt.kind in ("unfinished", "too-short", "no-speed"))[:1]


def _aside_piece(words: str, about: str) -> Piece:
    return Piece(f" ({words})", "aside", about=about)


def _quality(cells: Cells, base_cells: Cells, *, of_scripts: bool) -> Pieces:
    of_loss = ("loss", " at the end") if of_scripts else ("mean loss", " in the last epoch")
    for metric, name, where in ((ACCURACY, "accuracy", ""), (LOSS, *of_loss)):
        mine, theirs = cells[metric.name], base_cells[metric.name]
        if mine.value is None or theirs.value is None or mine.difference is None:
            continue
        texts = dict.fromkeys(metric.text_with_unit(cell.value) for cell in (mine, theirs))
        both = " vs. ".join(texts)
        if mine.within_spread:
            aside = _aside_piece(f"{both}, within the variation between runs", name)
            if of_scripts:
                return Piece("with the same loss"), aside
            return Piece(f"at the same {name}{where}"), aside
        variation = "variation between runs"
        more = f"{'differs by ' if len(texts) == 1 else ''}more than the {variation}"
        spread = f"{variation} unknown" if mine.within_spread is None else more
        values = f"{both} {name}" if metric is ACCURACY else f"a {name} of {both}{where}"
        return Piece(f"{'with' if of_scripts else 'at'} {values}"), _aside_piece(spread, name)
    return ()

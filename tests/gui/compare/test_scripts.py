"""The answer about scripts: the card of the requirements, the metrics, and what each side printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from engine.compare.comparison import compare
from engine.compare.evidence import Evidence
from engine.compare.requirement import judge_saved
from engine.experiment.experiment import changed
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from gui.compare.reading import ComparedRuns, read_and_compare, related_runs
from gui.compare.scripts import PrintedLines, RequiredMetrics
from gui.widgets.boxes import in_column
from tests.records import script_run

Trained = Callable[..., RunRecord]


@pytest.fixture
def compared(saved: Store, trained: Trained) -> Callable[..., ComparedRuns]:
    """Compares three runs of two commands, of which the first prints, with requirements."""

    def compare(require: str, **figures: Any) -> ComparedRuns:
        lines = {"python train.py": 800.0, "python train.py --amp": 1_600.0}
        runs = [
            trained(
                "fp32",
                lines[line] + seed,
                printed="" if "amp" in line else "\n".join(f"iter {step}" for step in range(40)),
                settings={"seed": seed, "command": {"line": line, "require": require}},
                peak_allocated_mib=1_000.0,
                **figures,
            )
            for seed in range(3)
            for line in (lines if seed % 2 == 0 else reversed(lines))
        ]
        return read_and_compare(saved.path, None, None, runs, {}, ())

    return compare


def test_no_other_run_is_read_for_scripts(trained: Trained) -> None:
    model, script = trained("fp32", 800.0), trained("fp32", 800.0, settings={"command": {"line": "./train"}})
    assert related_runs([script, model], [script]) == []
    assert related_runs([script, model], [script, model]) == [model]


@pytest.fixture
def parts(qtbot: QtBot) -> Iterator[tuple[RequiredMetrics, PrintedLines]]:
    parts, window = (RequiredMetrics(), PrintedLines()), QWidget()
    qtbot.addWidget(window)
    in_column(*parts, parent=window)
    window.resize(1_088, 700)
    window.show()
    yield parts


@pytest.mark.parametrize(
    ("require", "shown", "status"),
    [
        ("", [], "3"),
        ("speed >= 1.5", ["Yes: speed >= 1.5. The lower end of the 95% interval, 1.99, is above 1.5."], "0"),
        (
            "speed >= 3, memory <= 0.8",
            [
                "No: speed >= 3. The upper end of the 95% interval, 2.00, is below 3.",
                "No: memory <= 0.8. The lower end of the 95% interval, 1.00, is above 0.8.",
            ],
            "1",
        ),
    ],
)
def test_the_card_has_a_row_for_each_requirement(
    compared: Callable[..., ComparedRuns],
    parts: tuple[RequiredMetrics, PrintedLines],
    require: str,
    shown: list[str],
    status: str,
) -> None:
    above, comparison = parts[0], compared(require).comparison
    above.show_comparison(comparison, comparison.sides[1].id)
    card = above.required
    assert [row.accessibleName() for row in card.rows] == shown
    assert card.isVisible() is bool(shown)
    assert status in [label.text() for label in card.findChildren(QLabel)]
    assert above.table.x() > 300 if shown else above.table.x() == 0


def test_the_card_does_not_repeat_what_the_verdict_above_it_says(
    compared: Callable[..., ComparedRuns], parts: tuple[RequiredMetrics, PrintedLines]
) -> None:
    above, busy = parts[0], "other programs used 60% of the CPU (2 cores) during the run"
    comparison = compared("speed >= 1.5, memory <= 0.8", speed_note=busy).comparison
    side = comparison.sides[1]
    above.show_comparison(comparison, side.id)
    assert any(busy in note for note in comparison.report(side.id).verdict.notes)
    undecided, refused = above.required.rows
    assert busy in undecided.accessibleName() and refused.accessibleName().startswith("No: memory")
    shown = [label.text() for label in above.required.findChildren(QLabel) if not label.isHidden()]
    assert not any(busy in text for text in shown)
    assert "The lower end of the 95% interval, 1.00, is above 0.8." in shown


def test_a_reason_loses_no_sentence_that_is_not_told_elsewhere(
    parts: tuple[RequiredMetrics, PrintedLines],
) -> None:
    runs = [
        script_run(number, f"python {('train', 'pretrain')[number % 2]}.py", observed={})
        for number in range(4)
    ]
    runs[1] = replace(runs[1], status=Status.STOPPED)
    runs[2] = replace(runs[2], status=Status.STOPPED)
    asked = [changed(run.experiment, {"command.require": "memory <= 0.8, loss"}) for run in runs]
    runs = [replace(run, experiment=one) for run, one in zip(runs, asked, strict=True)]
    comparison = compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id)
    side, (first, again) = comparison.sides[1], judge_saved(comparison).outcomes
    told, rest = first.reasons
    assert first.reasons == again.reasons and told in comparison.report(side.id).verdict.notes
    parts[0].show_comparison(comparison, side.id)
    shown = [label.text() for label in parts[0].required.findChildren(QLabel) if not label.isHidden()]
    assert shown.count(rest) == 1 and not any(told in text for text in shown)


def test_each_side_shows_what_it_printed_last(
    compared: Callable[..., ComparedRuns], parts: tuple[RequiredMetrics, PrintedLines], qtbot: QtBot
) -> None:
    parts[1].show_comparison(compared(""))
    plain, quiet = parts[1].cards
    qtbot.waitUntil(plain.isVisible)
    assert plain.lines() == [f"iter {step}" for step in range(34, 40)]
    assert quiet.lines() == [] and not quiet.whole.isVisible()
    plain.whole.click()
    assert plain.log.isVisible() and plain.log.toPlainText().startswith("iter 0\n")
    plain.whole.click()
    assert not plain.log.isVisible()

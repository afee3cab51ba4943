"""Published figures beside one's own in Compare: folded at first, with ratio and warning once opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QLabel

from engine.export.report.published import WARNING
from engine.store.record import RunRecord

Trained = Callable[..., RunRecord]

RESNET = {"model": "resnet50", "dataset": "synthetic", "image_size": 224, "batch_size": 256}


def test_a_card_with_ratio_and_warning_opens_for_a_model_that_others_published(
    workspace: Any, trained: Trained
) -> None:
    workspace.show(trained("tf32", 1_876.0, settings=RESNET), trained("fp16", 2_470.0, settings=RESNET))
    card = workspace.panel.published
    assert card.isVisible() and not card.is_open and card.texts() == []
    workspace.press("Published figures")
    a100 = [row for row in card.texts() if row[0] == "A100 80 GB"]
    assert [row[1:5] for row in a100] == [
        ["TF32", "256", "938", "2.00×"],
        ["FP16 AMP", "256", "2,470", "1.00×"],
    ]
    assert {row[-2] for row in a100} == {"2021"}
    said = [one.text() for one in card.findChildren(QLabel) if one.isVisible()]
    assert any(WARNING in text for text in said) and any("https://github.com/NVIDIA" in text for text in said)
    workspace.press("Published figures")
    assert card.texts() == []


def test_a_model_that_nobody_published_has_no_card(workspace: Any, trained: Trained) -> None:
    workspace.show(trained("fp32", 800.0))
    assert not workspace.panel.published.isVisible()

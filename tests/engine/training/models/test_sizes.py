"""Sizes that 16-bit Tensor Cores pad are named with their layer; what the data gives is only a note."""

from __future__ import annotations

from torch import nn

from engine.training.models.sizes import size_findings


def told(model: nn.Module, batch_size: int = 64) -> list[tuple[str, str, int]]:
    return [
        (finding.severity, finding.message.split(" has ")[0], finding.count)
        for finding in size_findings(model, batch_size)
    ]


def test_hidden_sizes_are_warnings_and_pictures_channels_and_classes_are_notes() -> None:
    sound = nn.Sequential(nn.Conv2d(3, 64, 3), nn.Conv2d(64, 64, 3, groups=64), nn.Linear(64, 10))
    assert told(sound) == [("note", "The layer 0", 1), ("note", "The layer 2", 1)]
    odd = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 100), nn.Linear(100, 8))
    assert told(odd) == [
        ("warning", "The layer 0, like 1 more,", 2),
        ("warning", "The layer 1, like 1 more,", 2),
    ]


def test_a_large_vocabulary_is_a_warning_though_it_is_the_last_layer() -> None:
    assert told(nn.Sequential(nn.Linear(64, 50_257))) == [("warning", "The layer 0", 1)]


def test_the_batch_is_a_note() -> None:
    (finding,) = size_findings(nn.Sequential(nn.Linear(64, 64)), 30)
    assert finding.severity == "note" and "32" in finding.remedy

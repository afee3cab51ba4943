"""Batches of the user's own: what they may be made of, and that drawing them disturbs nothing."""

from __future__ import annotations

import torch

from engine.training.data.own import made_up, seeded
from engine.training.models.own import OwnFile

HEAD = "import torch\n"


def test_a_random_number_of_the_data_does_not_change_the_models_draws(own):
    torch.manual_seed(7)
    before = torch.rand(1)
    torch.manual_seed(7)
    with seeded(3):
        torch.rand(5)
    assert torch.equal(torch.rand(1), before)


def test_drawing_a_batch_leaves_the_generators_of_other_devices_alone(own, monkeypatch):
    text = f"{HEAD}labels = torch.zeros(4)\ndef batch(size):\n    return torch.randn(size, 3), labels\n"
    experiment = own.experiment(own.write(text))
    file = OwnFile(experiment.own_code, None, 0)
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    batches = [made_up(file, experiment, turn)[0] for turn in (0, 1, 0)]
    assert not seeds
    assert torch.equal(batches[0], batches[2]) and not torch.equal(batches[0], batches[1])

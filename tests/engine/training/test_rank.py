"""The samples that each rank trains on are those of one process at the global batch, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.training import ranks as module
from engine.training.ranks import Rank, rank_indices
from engine.training.runs.checkpoints import Checkpoints


def shares(monkeypatch: pytest.MonkeyPatch, samples: int, batch_size: int, ranks: int) -> list[list[int]]:
    result = []
    for rank in range(ranks):
        monkeypatch.setattr(module, "current_rank", lambda rank=rank: Rank(rank, ranks))
        result.append(rank_indices(torch.arange(samples), batch_size).tolist())
    return result


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 4, 7])
@pytest.mark.parametrize("samples", [8, 24, 57, 200])
def test_the_ranks_batches_are_the_parts_of_a_global_batch(
    monkeypatch: pytest.MonkeyPatch, samples: int, batch_size: int, ranks: int
) -> None:
    parts = shares(monkeypatch, samples, batch_size, ranks)
    kept = samples // ranks * ranks
    together = []
    for start in range(0, kept // ranks, batch_size):
        batches = [part[start : start + batch_size] for part in parts]
        assert len({len(batch) for batch in batches}) == 1
        together.append(sorted(sample for batch in batches for sample in batch))
    whole = batch_size * ranks
    assert together == [list(range(start, min(start + whole, kept))) for start in range(0, kept, whole)]


def test_a_rank_keeps_its_own_random_state_beside_the_first_ones_checkpoint(tmp_path: Path) -> None:
    def state(steps: int, number: float) -> dict[str, object]:
        value = torch.tensor(number)
        parts = {"model": {"weight": value}, "optimizer": {"weight": value}, "random": {"cpu": value}}
        return {**parts, "scaler": {}, "progress": {"tally": {"steps": steps}}}

    first, second = Checkpoints(tmp_path), Checkpoints(tmp_path, 1)
    first.save("last", state(5, 1.0))
    second.save("last", state(5, 2.0))
    loaded = second.load("last")
    assert loaded["model"]["weight"] == 1.0 and loaded["random"]["cpu"] == 2.0
    assert first.load("last")["random"]["cpu"] == 1.0
    # killed between the two files: what is left is of another step
    first.save("last", state(6, 3.0))
    assert second.load("last")["random"]["cpu"] == 3.0

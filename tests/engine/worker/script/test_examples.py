"""The scripts of the guide run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import experiment_from
from engine.protocol.events import Finished, Started
from engine.protocol.jobs import Control
from engine.worker.script.run import run_script

PAGE = Path(__file__).parents[4] / "resources" / "guide" / "compare-scripts.md"
_BLOCK = re.compile(r"`(\w+\.py)`[^\n]*?(?:\n[^\n]+)*?\n\n```python\n(.*?)```", re.DOTALL)
SCRIPTS = dict(_BLOCK.findall(PAGE.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "batch"),
    [("train.py", "--amp", 16), ("train_lightning.py", "bf16-mixed", 16), ("train_hf.py", "bf16", 8)],
)
def test_it_trains_in_bfloat16_as_it_says(tmp_path: Path, name: str, words: str, batch: int) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])
    line = f"HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES= '{sys.executable}' {name} {words}"
    settings = {
        "command": {"line": line, "folder": str(tmp_path)},
        "steps": 30,
        "measure": {"warmup_steps": 5, "block_steps": 5},
    }
    events = list(run_script(experiment_from(settings), Control()))
    (started,) = (event for event in events if isinstance(event, Started))
    finished = events[-1]
    assert isinstance(finished, Finished), finished
    assert started.experiment.precision is Precision.BF16 and started.experiment.batch_size == batch
    assert finished.summary.steps == 30 and finished.summary.samples_per_second is not None

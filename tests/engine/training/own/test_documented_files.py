"""The model files in README, in the guide and in the template train as they stand."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
_FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _documented(path: str) -> list[str]:
    """The Python texts on a page that define a model."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return [code for code in _FENCED.findall(text) if "def model(" in code]


FILES = {
    f"{path} {number}": code
    for path in ("README.md", "resources/guide/own-model.md", "resources/guide/own-step.md")
    for number, code in enumerate(_documented(path), start=1)
}


def test_readme_and_guide_show_files() -> None:
    assert [name.rpartition("/")[2] for name in FILES] == ["README.md 1", "own-model.md 1", "own-step.md 1"]
    assert len(FILES["README.md 1"].splitlines()) < 15


@pytest.mark.parametrize("code", FILES.values(), ids=FILES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_documented_file_trains(own, code, precision):
    losses = own.losses(own.experiment(own.write(code), precision=precision))
    assert len(losses) == 6
    assert all(map(math.isfinite, losses))

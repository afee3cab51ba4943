"""The verb `template`: a model file that trains as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.experiment.code import read_code


def test_it_writes_a_short_file_and_replaces_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.py"
    assert main(["template", str(tmp_path / "net"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(path)}
    assert len(path.read_text().splitlines()) < 40
    assert {"model", "batch", "loss"} <= read_code(path).defines
    path.write_text("# mine\n")
    assert main(["template", str(path)]) == 2
    assert path.read_text() == "# mine\n"
    assert main(["template", str(path), "--force"]) == 0
    assert path.read_text() != "# mine\n"

"""The verb `template`: a model file that trains as it is."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.experiment.experiment import Experiment, flattened
from engine.experiment.own.code import read_code
from engine.export.files import TEMPLATE_NAME
from engine.store.store import Store


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


def test_its_help_and_the_guide_name_all_that_the_file_may_define(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["template", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    page = (files("resources") / "guide" / "model-file.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+\([\w, ]*\))`", page, re.MULTILINE)
    assert len(documented) == 11
    assert [name for name in documented if name not in shown] == []
    template = (files("resources") / "template" / TEMPLATE_NAME).read_text(encoding="utf-8")
    assert [name for name in documented if name.partition("(")[0] not in template] == []


Capture = pytest.CaptureFixture[str]


def test_every_setting_is_listed_with_its_default(capsys: Capture) -> None:
    main(["settings", "--json"])
    listed = json.loads(capsys.readouterr().out)["settings"]
    assert {entry["key"]: entry["default"] for entry in listed} == flattened(Experiment())
    assert all(entry["title"] and entry["about"].endswith(".") for entry in listed)


@pytest.mark.parametrize("verb", ["run", "compare", "sweep"])
def test_the_preset_of_a_limit_is_not_trained(capsys: Capture, verb: str) -> None:
    assert main([verb, "--preset", "batch-limit"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "finds the largest batch" in shown and "`ammeter limit --preset batch-limit`" in shown
    with Store() as store:
        assert not store.runs()

"""Settings on the command line: where they are listed, and what points there."""

from __future__ import annotations

import json

import pytest

from engine.cli import main
from engine.experiment.experiment import Experiment, Precision, flattened
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *arguments: str) -> str:
    main(list(arguments))
    shown = capsys.readouterr()
    return " ".join((shown.out + shown.err).replace("│", " ").split())


def test_every_setting_is_listed_with_its_default(capsys: Capture) -> None:
    listed = json.loads(told(capsys, "settings", "--json"))["settings"]
    assert {entry["key"]: entry["default"] for entry in listed} == flattened(Experiment())
    assert all(entry["title"] and entry["about"].endswith(".") for entry in listed)
    shown = told(capsys, "settings")
    assert "optimizer.learning_rate 0.001 How far each step moves the weights." in shown
    assert "data.pin_memory true" in shown and "step.clip_norm none" in shown


def test_an_unknown_setting_is_answered_with_those_that_may_be_meant(capsys: Capture) -> None:
    shown = told(capsys, "run", "--set", "lr=1")
    assert "Did you mean optimizer.learning_rate? `ammeter settings` lists all of them." in shown


@pytest.mark.parametrize("verb", ["run", "compare", "sweep"])
def test_the_preset_of_a_limit_is_not_trained(capsys: Capture, verb: str) -> None:
    assert main([verb, "--preset", "batch-limit"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "finds the largest batch" in shown and "`ammeter limit --preset batch-limit`" in shown
    with Store() as store:
        assert not store.runs()


@pytest.mark.parametrize("verb", ["compare", "limit"])
def test_the_help_names_the_precisions_and_those_without_any(capsys: Capture, verb: str) -> None:
    shown = told(capsys, verb, "--help")
    assert all(precision.value in shown for precision in Precision)
    assert "Default: fp32 and fp16, without a GPU fp32 and bf16." in shown


def test_a_run_is_shown_without_settings_that_mean_nothing_to_it(capsys: Capture) -> None:
    with Store() as store:
        run = store.add(Experiment())
    main(["show", run.id])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["optimizer.learning_rate", "0.001"] in rows and ["data.pin_memory", "true"] in rows
    assert not {"samples", "sequence_length", "steps", "path"} & {row[0] for row in rows if row}

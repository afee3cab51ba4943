"""A setting is described once, in its field: title, unit and help."""

from __future__ import annotations

import pytest

from engine.cli import main
from engine.compare.comparison import SettingRow
from engine.experiment.experiment import (
    FACTS,
    Experiment,
    all_settings,
    flattened,
    named,
    setting_help,
    setting_title,
)
from engine.export.report.report import setting_lines

LONGEST_TITLE = 28


@pytest.mark.parametrize("key", flattened(Experiment()))
def test_every_setting_has_a_short_title_and_a_line_of_help(key: str) -> None:
    field = all_settings()[key]
    assert field.title and setting_title(key) == field.title
    assert len(field.title) <= LONGEST_TITLE and field.title[0].isupper()
    assert setting_help(key).endswith(".")


def test_no_two_settings_or_facts_have_one_title() -> None:
    titles = [setting_title(key) for key in (*all_settings(), *FACTS)]
    assert len(set(titles)) == len(titles)


def test_a_title_stands_in_a_sentence_too() -> None:
    assert named("optimizer.learning_rate") == "learning rate"
    assert named("step.autocast_tf32") == "TF32 within AMP"
    assert (all_settings()["memory_cap_gib"].unit, all_settings()["seed"].unit) == ("GiB", "")


@pytest.mark.parametrize("key", flattened(Experiment()))
def test_a_report_has_the_titles_of_the_fields(key: str) -> None:
    (line,) = setting_lines([SettingRow(key, (None, None), ("none", "none"), differs=False)])
    assert line.title == all_settings()[key].title


@pytest.mark.parametrize("key", ["model", "batch_size", "optimizer.learning_rate", "memory_cap_gib"])
def test_the_command_line_helps_with_the_words_of_the_fields(capsys, key):
    assert main(["run", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"{setting_title(key)}. {setting_help(key)[:16]}" in shown

"""Settings as the window speaks of them: by the titles of their fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.experiment.experiment import setting_fields
from engine.experiment.titles import named, setting_problem
from gui.setup.fields import OPTIONS
from gui.window.main_window import MainWindow


@pytest.mark.parametrize("key", OPTIONS)
def test_the_form_calls_a_setting_by_the_title_of_its_field(key: str) -> None:
    assert OPTIONS[key].label == setting_fields()[key].title
    assert OPTIONS[key].tip == setting_fields()[key].description


def test_what_the_window_tells_names_settings_and_no_keys(start: Callable[[], MainWindow]) -> None:
    window = start()
    remedy = f"Lower {named('image_size')}, or set {named('memory_cap_gib')}."
    window.experiments.problem.emit(setting_problem("batch_size", "is too large.", remedy))
    message = window.notice.messages()[-1]
    assert (
        f"{message.text} {message.remedy}" == "Batch size is too large. Lower image size, or set memory cap."
    )

"""Settings as the window speaks of them: by the titles of their fields."""

from __future__ import annotations

from collections.abc import Callable

from engine.experiment.experiment import all_settings, named, setting_problem
from gui.setup.fields import OPTIONS
from gui.window.main_window import MainWindow


def test_the_form_shows_what_stands_beside_a_settings_field(start: Callable[[], MainWindow]) -> None:
    fields = start().setup.form.more.form.fields
    assert list(fields) == list(OPTIONS)
    for key, field in fields.items():
        setting = all_settings()[key]
        assert field.control.accessibleName() == setting.title
        assert field.control.toolTip().startswith(setting.about)


def test_what_the_window_tells_names_settings_and_no_keys(start: Callable[[], MainWindow]) -> None:
    window = start()
    remedy = f"Lower {named('image_size')}, or set {named('memory_cap_gib')}."
    window.experiments.problem.emit(setting_problem("batch_size", "is too large.", remedy))
    message = window.notice.messages()[-1]
    assert (
        f"{message.text} {message.remedy}" == "Batch size is too large. Lower image size, or set memory cap."
    )

"""The top bar: places, the activity, the device, theme and help."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.checks import DeviceEntry, PrecisionEntry
from engine.experiment.experiment import Precision
from gui.help.dialog import AboutDialog, GuideDialog
from gui.installation import doctor_page
from gui.installation.doctor_page import DoctorDialog
from gui.runs.queue_table import KIND_ICONS
from gui.theme.theme import theme
from gui.widgets import ThinProgressBar
from gui.widgets.actions import ACTIONS, Actions
from gui.window.chips import Activity
from gui.window.main_window import MainWindow
from gui.window.top_bar import TopBar

LEAST_WINDOW_WIDTH = 960
A_LONG_NAME = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"


told: list[str] = []
"""What was asked for."""


@pytest.fixture
def bar(qtbot: QtBot) -> TopBar:
    theme().set_mode("dark")
    told.clear()
    window = QWidget()
    qtbot.addWidget(window)
    bar = TopBar(Actions(window, {each.name: partial(told.append, each.name) for each in ACTIONS}))
    qtbot.addWidget(bar)
    bar.resize(LEAST_WINDOW_WIDTH, 52)
    with qtbot.waitExposed(bar):
        bar.show()
    return bar


def device(title: str, bf16_note: str | None = None, tensor_cores: bool = True) -> DeviceEntry:
    return DeviceEntry(
        name="cuda:0",
        title=title,
        memory_mib=143_155,
        tensor_cores=tensor_cores,
        precisions=tuple(
            PrecisionEntry(
                precision=precision,
                available=True,
                note=bf16_note if precision is Precision.BF16 else None,
            )
            for precision in Precision
        ),
    )


def button(bar: TopBar, name: str) -> QAbstractButton:
    return next(one for one in bar.findChildren(QAbstractButton) if one.accessibleName() == name)


def picture(widget: QWidget) -> QImage:
    return widget.grab().toImage()


def test_a_tab_asks_for_its_place_and_the_name_for_the_welcome(qtbot: QtBot, bar: TopBar) -> None:
    assert button(bar, "Experiment").isChecked()
    bar.set_place("show")
    assert button(bar, "Demo").isChecked() and not told, "the window set it"
    for name in ("Results", "Welcome"):
        qtbot.mouseClick(button(bar, name), Qt.MouseButton.LeftButton)
    assert told == ["results", "welcome"] and not button(bar, "Experiment").isChecked()


def test_its_button_changes_the_theme_which_it_follows(qtbot: QtBot, bar: TopBar) -> None:
    toggle = button(bar, "Theme")
    dark = picture(toggle)
    qtbot.mouseClick(toggle, Qt.MouseButton.LeftButton)
    assert told == ["theme"]
    theme().set_mode("light")
    assert picture(toggle) != dark
    theme().set_mode("dark")
    assert picture(toggle) == dark


def test_the_device_has_what_counts_for_mixed_precision_and_its_memory_in_use(bar: TopBar) -> None:
    bar.set_device(device("NVIDIA H200"))
    assert bar.device.accessibleName() == "Device: NVIDIA H200, 139.8 GiB"
    assert "NVIDIA H200, 139.8 GiB, Tensor Cores, BF16." in bar.device.toolTip()
    bar.set_device(device("An older card", bf16_note="emulated", tensor_cores=False))
    assert "An older card, 139.8 GiB." in bar.device.toolTip()
    usage = next(one for one in bar.device.findChildren(ThinProgressBar))
    assert not usage.isVisible()
    bar.device.set_usage(0.5, "69.9 GiB in use")
    assert usage.isVisible() and usage.fraction() == 0.5 and "69.9 GiB in use" in bar.device.toolTip()
    bar.device.set_usage(None, "")
    assert not usage.isVisible()


def test_a_long_device_name_is_shortened_and_cuts_nothing_off(qtbot: QtBot, bar: TopBar) -> None:
    bar.set_device(device(A_LONG_NAME))
    bar.device.set_usage(0.5, "69.9 GiB in use")
    assert bar.minimumSizeHint().width() <= LEAST_WINDOW_WIDTH
    help_button = button(bar, "Help")
    qtbot.waitUntil(lambda: bar.device.geometry().right() < help_button.geometry().left())
    assert button(bar, "Demo").geometry().right() < bar.activity.geometry().left()
    assert bar.activity.geometry().right() < bar.device.geometry().left()
    tabs = [one for one in bar.findChildren(QPushButton) if one.property("kind") == "tab"]
    assert all(tab.width() >= tab.sizeHint().width() for tab in tabs)
    assert help_button.geometry().right() < bar.width()
    titles = [one for one in bar.device.findChildren(QLabel) if one.text().endswith("…")]
    assert any(A_LONG_NAME.endswith(one.toolTip()) for one in titles if one.toolTip())


def test_a_narrow_bar_leaves_out_the_maker(qtbot: QtBot, bar: TopBar) -> None:
    bar.set_device(device("NVIDIA GeForce RTX 4090"))

    def has_words(words: str) -> bool:
        return words in [one.text() for one in bar.device.findChildren(QLabel)]

    qtbot.waitUntil(lambda: has_words("RTX 4090"))
    bar.resize(1_440, 52)
    qtbot.waitUntil(lambda: has_words("NVIDIA GeForce RTX 4090"))


def test_a_long_job_moves_no_place_and_hides_nothing_behind_an_empty_gap(qtbot: QtBot, bar: TopBar) -> None:
    bar.resize(1_440, 52)
    bar.set_device(device("Intel(R) Xeon(R) Processor"))
    bar.device.set_usage(0.5, "69.9 GiB in use")
    place = button(bar, "Experiment")
    qtbot.waitUntil(lambda: place.x() > 320)
    before = place.x()
    name, brief = "BF16 AMP, small-cnn, 2 of 2", "BF16 AMP, 2 of 2"
    bar.show_activity(
        Activity(name, brief, KIND_ICONS["run"], 0.15, "3 min 23 s left", "1 waiting", is_busy=True)
    )
    qtbot.waitUntil(lambda: bar.activity.width() > 220)
    assert place.x() == before and bar.activity.width() >= bar.activity.sizeHint().width()


@pytest.mark.slow
def test_each_entry_opens_once_and_the_window_closes_while_the_doctor_looks(
    qtbot: QtBot, tiny_window: MainWindow
) -> None:
    window = tiny_window
    for _ in range(2):
        for action in window.top_bar.help_menu.actions():
            if not action.text().startswith("Engine"):
                action.trigger()
    for kind in (GuideDialog, AboutDialog, DoctorDialog):
        (dialog,) = window.findChildren(kind)
        assert dialog.isVisible()
    doctor = window.findChild(DoctorDialog)
    assert doctor.is_looking
    window.top_bar.help_menu.actions()[3].trigger()
    window.close_without_asking()
    assert not doctor.is_looking and not doctor.isVisible()


def test_while_something_is_measured_no_step_is_trained() -> None:
    (check,) = doctor_page._worker(lambda: True, lambda: False)
    assert check.status == "note" and "disturb" in check.detail

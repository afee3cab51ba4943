"""The options under the form: each is shown where it means something, and left out elsewhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Precision
from engine.experiment.own.folders import Count, TextCount
from engine.experiment.presets import preset
from gui.setup import data
from gui.setup.data import FolderCount, FolderCounter, folder_words
from gui.setup.draft import Draft
from gui.setup.facts import options_summary
from gui.setup.fields import OPTIONS, SETTINGS
from gui.setup.panel import SetupPanel

FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16

TypeInto = Callable[[QLineEdit, str], None]


def test_changed_options_are_counted(panel: SetupPanel, type_into: TypeInto, user: Any) -> None:
    rate = user.option("optimizer.learning_rate")
    for text, note in (("0.5", "1 changed"), ("0.001", "all default"), ("1e-3", "all default")):
        type_into(rate, text)
        assert panel.form.more.note() == note


LOADING = {"data.on_device", "data.workers", "data.prefetch"}
FOLDER = {"model": "resnet50", "dataset": "image-folder", "path": "/p"}
OF_RANKS = {f"ranks.{name}" for name in ("reduction", "bucket_mib", "static_graph", "find_unused_parameters")}


@pytest.mark.parametrize(
    ("changes", "precisions", "shown", "hidden"),
    [
        ({}, (FP32,), set(), {"step.fp32_modules", "step.autocast_tf32"}),
        ({}, (FP32, BF16), {"step.fp32_modules"}, {"scaler.init_scale"}),
        ({}, (FP32, FP16), {"scaler.init_scale"}, {"checkpoint.every", *OF_RANKS}),
        ({"scaler.mode": "on"}, (BF16,), {"scaler.init_scale"}, set()),
        ({"checkpoint.last": "true", "validation.every": "0"}, (), {"checkpoint.every"}, {"checkpoint.best"}),
        ({"dataset": "synthetic-tokens", "model": "gpt"}, (), {"sequence_length"}, {"image_size"}),
        ({"model": "resnet50", "dataset": "synthetic"}, (), {"image_size"}, LOADING),
        (FOLDER, (), LOADING, {"data.persistent_workers"}),
        ({**FOLDER, "data.workers": "2"}, (), {*LOADING, "data.persistent_workers"}, set()),
        ({"schedule.name": "constant"}, (), {"schedule.warmup_steps"}, {"schedule.final_fraction"}),
        ({"schedule.name": "cosine"}, (), {"schedule.final_fraction"}, {"schedule.rise_fraction"}),
        ({"schedule.name": "one-cycle"}, (), {"schedule.rise_fraction"}, {"schedule.warmup_steps"}),
        ({"schedule.name": "step"}, (), {"schedule.decay_epochs"}, {"schedule.final_fraction"}),
        *(({"devices": several}, (), OF_RANKS, set()) for several in ("2", "all", "0")),
    ],
)
def test_an_option_applies_where_it_means_something(
    cpu: Catalog,
    changes: dict[str, str],
    precisions: tuple[Precision, ...],
    shown: set[str],
    hidden: set[str],
) -> None:
    draft = Draft(preset("fashion"))
    for key, text in changes.items():
        draft = draft.with_change(key, text)
    draft = draft.with_precisions(precisions) if precisions else draft
    assert {key for key in shown | hidden if draft.applies(key, cpu)} == shown


def test_options_that_mean_nothing_are_hidden_and_left_out(
    panel: SetupPanel, type_into: TypeInto, user: Any
) -> None:
    panel.choose_preset("hello-amp")
    panel.form.more.set_open(True)
    momentum = user.option("optimizer.momentum")
    assert momentum.isVisible()
    type_into(momentum, "0.9")
    name = panel.form.editor("optimizer.name")
    name.edited.emit("adamw")
    assert not momentum.isVisible()
    assert panel.outcome().problems == {}
    assert user.experiments()[0].optimizer.momentum == 0
    user.choose("schedule.warmup_steps", "5")
    user.choose("schedule.name", "one-cycle")
    assert panel.outcome().problems == {}, "it is not refused for a warm-up that nobody sees"
    assert options_summary(panel.draft) == "AdamW, learning rate 0.1, seed 0"


def test_the_recipe_is_plain_fast_or_some_parts(panel: SetupPanel, qtbot: QtBot, user: Any) -> None:
    recipe = panel.form.editor("step.recipe")
    assert recipe.choice.value() == "plain" and not recipe.boxes["fused"].isVisible()
    recipe.choice.button("fast").click()
    assert {experiment.step.recipe for experiment in user.experiments()} == {"fast"}
    recipe.choice.button("custom").click()
    assert all(box.isVisible() and box.isChecked() for box in recipe.boxes.values())
    recipe.boxes["compile"].click()
    assert {experiment.step.recipe for experiment in user.experiments()} == {
        "channels_last+fused+capture+host_counters"
    }
    recipe.boxes["compile"].click()
    # all of them are fast, and the ticks stay under the hand that sets them
    assert user.experiments()[0].step.recipe == "fast" and recipe.choice.value() == "custom"
    panel.reset_action.trigger()
    assert recipe.choice.value() == "plain" and not recipe.boxes["fused"].isVisible()


def make_classes(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "1.png").write_bytes(b"")


def test_a_folder_is_asked_for_where_the_dataset_is_one(
    panel: SetupPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, user: Any
) -> None:
    assert not panel.form.editor("path").isVisible()
    panel.set_text("model", "resnet50")
    panel.set_text("dataset", "image-folder")
    assert panel.form.editor("path").isVisible()
    assert "Path is empty" in (panel.form.problem("path") or "")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    panel.form.editor("path").button.click()
    assert panel.form.editor("path").text() == str(tmp_path)
    qtbot.waitUntil(lambda: "has no subfolders with images" in (panel.form.problem("path") or ""))
    assert not panel.run_action.isEnabled()
    make_classes(tmp_path, "cats", "dogs")
    panel.form.editor("path").button.click()
    qtbot.waitUntil(lambda: panel.form.problem("path") is None)
    assert {experiment.path for experiment in user.experiments()} == {str(tmp_path)}
    qtbot.waitUntil(
        lambda: "2 images, 2 classes" in [label.text() for label in panel.form.findChildren(QLabel)]
    )


def test_a_file_of_arrays_is_chosen_checked_and_counted(
    panel: SetupPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, frames=np.zeros((50, 28, 28), np.uint8), kind=np.zeros(50, int), other=np.zeros(50, int))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    panel.set_text("dataset", "arrays")
    assert "needs a file of arrays" in (panel.form.problem("path") or "")
    panel.form.editor("path").button.click()
    assert panel.form.editor("path").text() == str(path)
    qtbot.waitUntil(lambda: "do not show" in (panel.form.problem("data.inputs") or ""))
    panel.set_text("data.inputs", "frames")
    panel.set_text("data.targets", "kind")
    panel.set_text("batch_size", "9")
    qtbot.waitUntil(lambda: panel.run_action.isEnabled() and "40 steps" in panel.run_action.toolTip())
    assert "50 samples" in [label.text() for label in panel.form.findChildren(QLabel)]
    path.write_bytes(path.read_bytes()[:100])
    panel.set_text("batch_size", "8")
    qtbot.waitUntil(lambda: "damaged" in (panel.form.problem("path") or ""))
    assert not panel.run_action.isEnabled()


def test_no_data_are_read_in_the_window_s_thread(
    panel: SetupPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, user: Any
) -> None:
    windows, may_go_on = threading.get_ident(), threading.Event()
    readers = set()
    opened = os.open

    def slow(path: str | Path, *args: Any, **settings: Any) -> int:
        if Path(path).parent == tmp_path:
            readers.add(threading.get_ident())
            assert threading.get_ident() == windows or may_go_on.wait(20)
        return opened(path, *args, **settings)

    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((50, 28, 28), np.uint8), y=np.zeros(50, int))
    monkeypatch.setattr(os, "open", slow)
    panel.set_text("batch_size", "9")
    panel.set_text("dataset", "arrays")
    panel.set_text("path", str(path))
    assert (panel.outcome().reason, panel.form.problem("path")) == ("Reading the data…", None)
    assert not panel.run_action.isEnabled() and panel.request() is None and panel.to_forecast() == ()
    assert "reading…" in [label.text() for label in panel.form.findChildren(QLabel)]
    may_go_on.set()
    qtbot.waitUntil(panel.run_action.isEnabled)
    assert readers and windows not in readers
    panel.set_text("batch_size", "8")
    assert panel.run_action.isEnabled(), "what is known is not waited for again"
    assert panel.request() is not None


def test_the_form_shows_what_stands_beside_a_settings_field(panel: SetupPanel) -> None:
    fields = panel.form.more.form.rows
    assert list(fields) == list(OPTIONS)
    for key, field in fields.items():
        setting = SETTINGS[key]
        assert field.control.accessibleName() == setting.title
        assert field.control.toolTip().startswith(setting.about)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for name in ("cats/0.jpg", "cats/1.jpg", "dogs/0.jpg"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(b"")
    return tmp_path / "pets"


@pytest.fixture
def counter(qtbot: QtBot, qapp: object) -> Iterator[FolderCounter]:
    owner = QObject()
    counter = FolderCounter(owner)
    yield counter
    counter.stop()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (None, ""),
        (Count(0, 0, 0), "no images in class folders"),
        (Count(1, 0, 1), "1 image, 1 class"),
        (Count(1_200, 34, 3), "1,234 images, 3 classes"),
        (TextCount(1, 3 * 2**20), "1 file, 3.0 MiB of text"),
        (TextCount(0, 0), "no text"),
    ],
)
def test_what_it_holds_is_said_in_words(count: FolderCount | None, words: str) -> None:
    assert folder_words(count, False) == words


def test_a_folder_is_counted_by_its_path_and_by_its_kind(
    counter: FolderCounter, qtbot: QtBot, pets: Path
) -> None:
    counter.set_folder(str(pets))
    assert counter.count() is None and counter.is_counting()
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))
    counter.set_folder(str(pets / "gone"))
    assert counter.count() is None
    (pets / "notes.txt").write_text("purring")
    counter.set_folder(str(pets))
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))
    counter.set_folder(str(pets), is_text=True)
    assert counter.count() is None
    qtbot.waitUntil(lambda: counter.count() == TextCount(1, 7))


def test_nothing_is_counted_beside_a_run(counter: FolderCounter, qtbot: QtBot, pets: Path) -> None:
    counter.set_paused(True)
    counter.set_folder(str(pets))
    assert not counter.is_counting()
    counter.set_paused(False)
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))


def test_a_known_folder_is_read_again_only_where_something_came_or_went(
    counter: FolderCounter, qtbot: QtBot, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    usual = data.count_images

    def counting(path: str, is_given_up: Callable[[], bool]) -> Count | None:
        read.append(path)
        return usual(path, is_given_up)

    monkeypatch.setattr(data, "count_images", counting)

    def look() -> None:
        counter.set_folder(None)
        with qtbot.waitSignals([counter.changed, counter.changed]):
            counter.set_folder(str(pets))

    look()
    look()
    assert len(read) == 1
    (pets / "dogs" / "1.jpg").write_bytes(b"")
    os.utime(pets / "dogs", (1.0, 2.0))
    look()
    assert len(read) == 2 and counter.count() == Count(4, 0, 2)


def test_another_path_gives_the_count_up(
    counter: FolderCounter, qtbot: QtBot, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[str] = []

    def endless(path: str, is_given_up: Callable[[], bool]) -> Count | None:
        while path.endswith("pets") and not is_given_up():
            pass
        given_up.append(path)
        return Count(1, 0, 1)

    monkeypatch.setattr(data, "count_images", endless)
    with qtbot.waitSignal(counter.changed):
        counter.set_folder(str(pets))
    counter.set_folder(str(pets / "cats"))
    qtbot.waitUntil(lambda: counter.count() == Count(1, 0, 1))
    assert given_up == [str(pets), str(pets / "cats")]


def test_the_batch_is_per_device_and_the_devices_batch_stands_below_it(
    panel: SetupPanel, gpu: Catalog, user: Any
) -> None:
    card = gpu.devices[0]
    cards = (card, card.model_copy(update={"name": "cuda:1"}))
    panel.set_catalog(gpu.model_copy(update={"devices": cards}))
    panel.set_text("batch_size", "64")
    field = panel.form.rows["batch_size"]
    assert field.hint() == ""
    for text, hint in (("2", "128 on 2 devices"), ("all", "128 on 2 devices")):
        panel.set_text("devices", text)
        assert (field.note(), field.hint()) == ("per device", hint)
    panel.set_text("devices", "all")
    assert user.experiments()[0].devices == 0 and panel.outcome().problems == {}
    for question in ("profile", "tune"):
        panel.set_question(question)
        assert (field.note(), field.hint()) == ("per device", "128 on 2 devices")
        assert "one device" not in panel.foot.text()
    panel.set_question("numerics")
    assert (field.note(), field.hint()) == ("", "")
    assert panel.foot.text().endswith("on one device")


@pytest.fixture
def four_gpus(gpu: Catalog, cpu: Catalog) -> Catalog:
    cards = (gpu.devices[0].model_copy(update={"name": f"cuda:{place}"}) for place in range(4))
    return gpu.model_copy(update={"devices": (*cards, *cpu.devices)})


def test_devices_stand_at_the_top_where_the_machine_has_several_gpus(
    panel: SetupPanel, gpu: Catalog, four_gpus: Catalog, user: Any
) -> None:
    top, options = (panel.form.editor("device"), panel.form.editor("devices")), {"device", "devices"}
    panel.form.more.set_open(True)
    assert not any(box.isVisible() for box in top) and user.shown() >= options
    panel.set_catalog(gpu)
    assert not any(box.isVisible() for box in top) and user.shown() >= options
    panel.set_catalog(four_gpus)
    assert all(box.isVisible() for box in top) and not user.shown() & options
    panel.form.editor("devices").edited.emit("2")
    assert panel.form.more.note() == "all default", "what is changed can be seen above"
    assert user.shown() >= OF_RANKS
    assert panel.draft is not None
    assert panel.outcome().problems == {} and user.experiments()[0].devices == 2


def test_as_many_devices_are_offered_as_there_are_and_a_problem_of_them_is_shown_at_the_top(
    panel: SetupPanel, four_gpus: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 40)
    panel.set_catalog(four_gpus)
    for device, counts in {
        "auto": "1 2 3 4 all",
        "cuda:1": "1 2 3 all",
        "cuda:3": "1",
        "cpu": "1 2 3 4 5 6 7 8 16 32",
    }.items():
        panel.form.editor("device").edited.emit(device)
        assert [value for value, _ in panel.form.editor("devices").choices()] == counts.split()
    panel.set_text("devices", "4")
    panel.form.editor("device").edited.emit("cuda:2")
    assert panel.form.problem("devices") == "Devices is 4, but starting with cuda:2, there are 2."
    assert panel.form.editor("devices").value() == "4" and not panel.form.more.is_open()
    panel.form.editor("devices").edited.emit("all")
    assert (
        panel.form.problem("devices") is None and panel.form.rows["batch_size"].hint()[-12:] == "on 2 devices"
    )

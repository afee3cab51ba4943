"""The words of the form: for each question, on a CPU and on a GPU, with all its options."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from engine.experiment.checks import Catalog
from gui.setup.panel import SetupPanel
from gui.setup.question import QUESTIONS
from tests.golden import Golden, words_of


def test_the_words_of_the_questions(panel: SetupPanel, golden: Golden) -> None:
    panel.set_axis("batch_size", ("32", "64"))
    for question in (key for key in QUESTIONS if key != "script"):
        panel.set_question(question)
        golden(words_of(panel), question)


def test_the_words_of_scripts(panel: SetupPanel, golden: Golden) -> None:
    panel.set_question("script")
    # its fields are made late, and shown with the next event
    QApplication.processEvents()
    golden(words_of(panel), "script")


def test_the_words_of_all_options_on_a_gpu(panel: SetupPanel, gpu: Catalog, golden: Golden) -> None:
    panel.set_catalog(gpu)
    golden(words_of(panel.form.more), "options")


def test_the_words_of_what_is_wrong(panel: SetupPanel, golden: Golden) -> None:
    for key, text in (("batch_size", "0"), ("model", "resnet50")):
        panel.set_text(key, text)
        golden(words_of(panel), f"{key}-{text}")
        panel.reset_action.trigger()

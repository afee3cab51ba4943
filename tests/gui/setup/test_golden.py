"""The words of the form: for each question, on a CPU and on a GPU, with all its options."""

from __future__ import annotations

import pytest

from engine.experiment.checks import Catalog
from gui.setup.panel import SetupPanel
from gui.setup.question import QUESTIONS, Question
from tests.golden import Golden, words_of


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_words_of_a_question(panel: SetupPanel, golden: Golden, question: Question) -> None:
    panel.ask(question)
    golden(words_of(panel), question)


def test_the_words_of_all_options_on_a_gpu(panel: SetupPanel, gpu: Catalog, golden: Golden) -> None:
    panel.set_catalog(gpu)
    golden(words_of(panel.form.more), "options")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("batch_size", "none"),
        ("batch_size", "0"),
        ("batch_size", "32, 64"),
        ("model", "resnet50"),
        ("optimizer.learning_rate", "fast"),
    ],
)
def test_the_words_of_what_is_wrong(panel: SetupPanel, golden: Golden, key: str, text: str) -> None:
    panel.set_text(key, text)
    golden(words_of(panel), f"{key}-{text.replace(', ', '-')}")

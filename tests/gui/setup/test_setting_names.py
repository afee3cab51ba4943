"""Settings as the window speaks of them: by their names, where the engine has their keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.experiment.problem import Kind, Problem
from gui.setup.names import spoken
from gui.window.main_window import MainWindow


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Lower batch_size or image_size.", "Lower batch size or image size."),
        ("to 32 with step.gradient_accumulation 2", "to 32 with gradient accumulation 2"),
        ("or raise memory_cap_gib if it is set", "or raise memory cap if it is set"),
        ("Lower optimizer.learning_rate, clip.", "Lower learning rate, clip."),
        (
            "Choose a smaller model, another device or path.",
            "Choose a smaller model, another device or path.",
        ),
        ("see my_batch_size.txt", "see my_batch_size.txt"),
    ],
)
def test_settings_are_spoken_of_by_their_names(text: str, said: str) -> None:
    assert spoken(text) == said


def test_what_the_window_tells_names_settings_and_no_keys(start: Callable[[], MainWindow]) -> None:
    window = start()
    remedy = "Lower batch_size, or set memory_cap_gib."
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy=remedy)
    window.experiments.problem.emit(problem)
    message = window.notice.messages()[-1]
    assert (
        f"{message.text} {message.remedy}"
        == "The device ran out of memory. Lower batch size, or set memory cap."
    )

"""The guide's picture of the engine's installation."""

from __future__ import annotations

from collections.abc import Callable

from drawing import EDGE, WIDTH, Drawing

from resources.looks import LIGHT

_DONE = LIGHT.look("fp16")


def engine() -> Drawing:
    drawing = Drawing(212, "The program holds the window; PyTorch is downloaded, tried, and then used")
    drawing.text(EDGE, 30, "Ammeter", color=LIGHT.text, size=13, weight=600)
    drawing.text(EDGE, 47, "installed; some 100 MB", color=LIGHT.text3, size=11)
    for place, name in enumerate(("window", "saved runs", "Compare, Show")):
        y = 60 + place * 38
        drawing.box(EDGE, y, 128, 30, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(EDGE + 64, y + 20, name, color=LIGHT.text, anchor="middle")
    left = 196
    drawing.text(left, 30, "The engine", color=LIGHT.text, size=13, weight=600)
    drawing.text(left, 47, "in your own folder; up to some 4 GB to download", color=LIGHT.text3, size=11)
    drawing.arrow((EDGE + 134, 75), (left - 6, 75))
    stages = (("look up", "which build"), ("download", "goes on later"), ("unpack", "beside the old"))
    for place, (head, about) in enumerate(stages):
        x = left + place * 104
        drawing.box(x, 60, 88, 44, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(x + 44, 79, head, color=LIGHT.text, size=13, weight=600, anchor="middle")
        drawing.text(x + 44, 96, about, color=LIGHT.text3, size=11, anchor="middle")
        if place < 2:
            drawing.arrow((x + 90, 82), (x + 102, 82))
    x = left + 2 * 104
    drawing.arrow((x + 44, 106), (x + 44, 124))
    drawing.box(x, 126, 88, 44, LIGHT.bg2, LIGHT.line2, radius=6)
    drawing.text(x + 44, 145, "try", color=LIGHT.text, size=13, weight=600, anchor="middle")
    drawing.text(x + 44, 162, "trains a step", color=LIGHT.text3, size=11, anchor="middle")
    drawing.arrow((x - 2, 148), (left + 90, 148))
    drawing.box(left, 126, 88, 44, _DONE.tint, _DONE.color, radius=6)
    drawing.text(left + 44, 153, "in use", color=_DONE.color, size=13, weight=600, anchor="middle")
    drawing.text(EDGE, 198, "an older engine stays until the new one has trained a step")
    drawing.text(WIDTH - EDGE, 198, "a sketch", color=LIGHT.text3, size=11, anchor="end")
    return drawing


ENGINE_PICTURES: dict[str, Callable[[], Drawing]] = {"engine": engine}

"""The guide's pictures of installing PyTorch, and of the user's own models and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drawing import EDGE, WIDTH, Drawing

from resources.looks import LIGHT

FP32, FP16, BF16 = (LIGHT.look(name) for name in ("fp32", "fp16", "bf16"))


def _card(
    drawing: Drawing,
    x: float,
    y: float,
    width: float,
    head: str,
    lines: Sequence[str] = (),
    *,
    color: str = LIGHT.text2,
    fill: str = LIGHT.bg2,
) -> float:
    height = 32 + 20 * len(lines)
    drawing.box(x, y, width, height, fill, color, radius=6)
    drawing.text(x + 12, y + 21, head, color=color, size=13, weight=600)
    for row, words in enumerate(lines):
        drawing.text(x + 12, y + 43 + 20 * row, words, color=LIGHT.text)
    return height


def own_model() -> Drawing:
    drawing = Drawing(
        204, "The window reads your file, the worker process runs it, and the run keeps its text"
    )
    _card(drawing, EDGE, 60, 120, "net.py", ("model()", "batch(size)"), color=FP32.color, fill=FP32.tint)
    _card(drawing, 190, 20, 310, "window, command line", ("read the text, never run it",))
    _card(drawing, 190, 112, 130, "worker process", ("runs it,", "trains"), color=FP16.color, fill=FP16.tint)
    _card(drawing, 370, 112, 130, "saved run", ("metrics, curves,", "the file’s text"))
    drawing.arrow((164, 78), (186, 78))
    drawing.line((140, 78), (164, 78), LIGHT.text3, 1.5)
    drawing.arrow((255, 74), (255, 108))
    drawing.arrow((322, 148), (366, 148))
    return drawing


def model_file() -> Drawing:
    drawing = Drawing(196, "A step: batch, forward, loss, backward pass, and the optimizer step")
    width, pitch = 140, 170
    heads = ("inputs, targets", "outputs", "a scalar")
    calls = (
        ("batch(size)", "or dataset()"),
        ("forward(", "  model, inputs)"),
        ("loss(", "  outputs, targets)"),
    )
    drawing.box(EDGE + pitch - 10, 14, 330, 108, FP16.tint, FP16.dim, radius=8)
    for place, (head, lines) in enumerate(zip(heads, calls, strict=True)):
        x = EDGE + place * pitch
        _card(drawing, x, 24, width, head, lines, color=FP32.color, fill=LIGHT.bg1)
        if place:
            drawing.arrow((x - 28, 50), (x - 2, 50))
    drawing.text(EDGE + pitch, 114, "under autocast", color=FP16.color, weight=600)
    drawing.arrow((430, 124), (430, 142))
    _card(drawing, 360, 144, width, "backward pass")
    drawing.arrow((358, 160), (332, 160))
    _card(drawing, EDGE + pitch, 144, width, "optimizer step", color=FP32.color)
    drawing.text(EDGE, 165, "of optimizer(model)")
    return drawing


def own_step() -> Drawing:
    drawing = Drawing(170, "One step of a GAN: each of two losses goes backward and makes its optimizer step")
    rows = (("discriminator’s loss", "for_d"), ("generator’s loss", "for_g"))
    for row, (words, optimizer) in enumerate(rows):
        y = 20 + 62 * row
        drawing.box(EDGE, y, 160, 44, FP16.tint, FP16.color, radius=6)
        drawing.text(EDGE + 12, y + 19, "train.autocast()", color=FP16.color, weight=600)
        drawing.text(EDGE + 12, y + 36, words, color=LIGHT.text)
        for place, call in enumerate(("train.backward(loss)", f"train.step({optimizer})")):
            x = 200 + 156 * place
            drawing.box(x, y, 144, 44, LIGHT.bg2, LIGHT.line2, radius=6)
            drawing.text(x + 72, y + 26, call, color=LIGHT.text, anchor="middle")
        drawing.arrow((182, y + 22), (198, y + 22))
        drawing.arrow((346, y + 22), (354, y + 22))
    drawing.text(
        EDGE, 154, "one loss scaler for both, which changes its scale once, at the end", color=LIGHT.text3
    )
    return drawing


def own_data() -> Drawing:
    drawing = Drawing(176, "Folders of images and text and files of arrays become inputs and targets")
    rows = (
        ("IMAGES/cats, /dogs", "image-folder", FP32),
        ("digits.npz: x, y", "arrays", FP16),
        ("BOOKS/*.txt", "text-folder", BF16),
    )
    for row, (place, name, look) in enumerate(rows):
        y = 20 + 48 * row
        drawing.box(EDGE, y, 170, 38, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(EDGE + 12, y + 24, place, color=LIGHT.text)
        drawing.arrow((192, y + 19), (218, y + 19))
        drawing.box(220, y, 110, 38, look.tint, look.color, radius=6)
        drawing.text(275, y + 24, name, color=look.color, weight=600, anchor="middle")
        drawing.arrow((332, y + 19), (358, y + 19))
    for row, words in enumerate(("images and classes", "inputs, targets", "tokens, next tokens")):
        drawing.text(366, 44 + 48 * row, words, color=LIGHT.text)
    return drawing


def library_models() -> Drawing:
    drawing = Drawing(118, "A library's prefix, a colon, and the name that the library itself uses")
    rows = (
        ("timm:", "convnext_tiny", FP32, "a model of timm"),
        ("hf:", "llama", FP16, "a type of transformers"),
    )
    for row, (prefix, name, look, words) in enumerate(rows):
        y = 20 + 42 * row
        drawing.box(EDGE, y, 64, 32, look.tint, look.color, radius=6)
        drawing.text(EDGE + 32, y + 21, prefix, color=look.color, size=13, weight=600, anchor="middle")
        drawing.box(EDGE + 70, y, 140, 32, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(EDGE + 82, y + 21, name, color=LIGHT.text, size=13)
        drawing.text(WIDTH - EDGE, y + 21, words, anchor="end")
    return drawing


_DONE = LIGHT.look("fp16")


def engine() -> Drawing:
    drawing = Drawing(212, "Ammeter is installed, and PyTorch is downloaded, tested, and then used")
    drawing.text(EDGE, 30, "Ammeter", color=LIGHT.text, size=13, weight=600)
    drawing.text(EDGE, 47, "installed, about 100 MB", color=LIGHT.text3, size=11)
    for place, name in enumerate(("window", "saved runs", "Results, Demo")):
        y = 60 + place * 38
        drawing.box(EDGE, y, 128, 30, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(EDGE + 64, y + 20, name, color=LIGHT.text, anchor="middle")
    left = 196
    drawing.text(left, 30, "PyTorch", color=LIGHT.text, size=13, weight=600)
    drawing.text(left, 47, "in your own folder, up to 4 GB to download", color=LIGHT.text3, size=11)
    drawing.arrow((EDGE + 134, 75), (left - 6, 75))
    stages = (("look up", "which build"), ("download", "can be resumed"), ("unpack", "next to the old"))
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
    drawing.text(x + 44, 145, "test", color=LIGHT.text, size=13, weight=600, anchor="middle")
    drawing.text(x + 44, 162, "trains a step", color=LIGHT.text3, size=11, anchor="middle")
    drawing.arrow((x - 2, 148), (left + 90, 148))
    drawing.box(left, 126, 88, 44, _DONE.tint, _DONE.color, radius=6)
    drawing.text(left + 44, 153, "in use", color=_DONE.color, size=13, weight=600, anchor="middle")
    drawing.text(EDGE, 198, "an older PyTorch stays until the new one has trained a step")
    drawing.text(WIDTH - EDGE, 198, "a sketch", color=LIGHT.text3, size=11, anchor="end")
    return drawing


def machines() -> Drawing:
    drawing = Drawing(
        212, "The window and the saved runs are here, and training continues if the connection drops"
    )
    for left, head, about, names in (
        (EDGE, "this machine", "the window, without a GPU", ("window", "saved runs")),
        (328, "remote machine", "with the GPU, reached by ssh", ("training", "results so far")),
    ):
        drawing.text(left, 30, head, color=LIGHT.text, size=13, weight=600)
        drawing.text(left, 47, about, color=LIGHT.text3, size=11)
        for place, name in enumerate(names):
            is_there = name == "training"
            fill, edge = (_DONE.tint, _DONE.color) if is_there else (LIGHT.bg2, LIGHT.line2)
            drawing.box(left, 62 + 56 * place, 160, 40, fill, edge, radius=6)
            color = _DONE.color if is_there else LIGHT.text
            drawing.text(left + 80, 87 + 56 * place, name, color=color, anchor="middle")
    drawing.arrow((EDGE + 166, 82), (322, 82))
    drawing.text(250, 74, "settings, model file", color=LIGHT.text3, size=11, anchor="middle")
    drawing.arrow((408, 104), (408, 116))
    drawing.arrow((322, 138), (EDGE + 166, 138))
    drawing.text(250, 130, "metrics, in order", color=LIGHT.text3, size=11, anchor="middle")
    drawing.text(EDGE, 190, "if the connection drops, training continues, and results are picked up later")
    return drawing


OWN_PICTURES: dict[str, Callable[[], Drawing]] = {
    "install": engine,
    "remote-machine": machines,
    "own-model": own_model,
    "model-file": model_file,
    "own-step": own_step,
    "own-data": own_data,
    "library-models": library_models,
}

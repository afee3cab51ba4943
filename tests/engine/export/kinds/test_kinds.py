"""Every kind of result in every format: whole, atomic, and with text that does nothing."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from PIL import Image

from engine import __version__
from engine.compare.verdict import Piece
from engine.experiment.experiment import Precision
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.export.content import Content
from engine.export.formats import COMPARISON, LIMIT, NUMERICS, PROFILE, SWEEP, TRACES, TUNE, ResultKind
from engine.export.kinds.sweep import TRADE_OFF, document
from engine.export.writers.pdf import Pages
from engine.protocol.events import Finished, Summary
from engine.protocol.numerics import Numerics
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit, LimitSide
from engine.protocol.tune import Tuning
from engine.store.saved.studies import Study
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from resources.looks import LIGHT
from tests.engine.tune.test_result import TUNING, WINNER


class Made(NamedTuple):
    """A result, and words that all its texts have."""

    kind: ResultKind[Any]
    result: Any
    words: tuple[str, ...]


@pytest.fixture
def made(
    request: pytest.FixtureRequest,
    saved: Study[Numerics],
    profiled: Study[Profiles],
    swept: SweepRecord,
    searched: Study[Limit],
    store: Store,
    pair: Content,
) -> Made:
    tuning = TUNING.model_copy(update={"winner": WINNER.model_copy(update={"path": None})})
    tuned = store.studies.begin(Study(answer=tuning, device_name="a card"))
    known = {
        "comparison": Made(COMPARISON, pair, ("2.50 times", "2,500", "2.50×", "a card", "Label smoothing")),
        "limit": Made(LIMIT, searched, ("BF16 AMP fits a batch of 128, 2.00 times", "Out of memory")),
        "numerics": Made(
            NUMERICS,
            saved,
            ("Keep fc in FP32.", "FP16 diverges from FP32 at step 2.", "99.5%", "<script>alert"),
        ),
        "profile": Made(
            PROFILE, profiled, ("FP16 AMP is 2.91 times", "No room <script>", "58.0", "of the measured peak")
        ),
        "sweep": Made(
            SWEEP,
            swept,
            ("1.50 times as fast", "The loss diverged in FP32", "1.50×", "Diverged 1 1,000"),
        ),
        "tune": Made(TUNE, tuned, ("1.91 times as fast", "1.45 to 1.55", "TF32: a format", "BF16 AMP")),
    }
    return known[request.param]


KINDS = ("comparison", "limit", "numerics", "profile", "sweep", "tune")
every_kind = pytest.mark.parametrize("made", KINDS, indirect=True)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "src" for name, _ in attrs)


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@every_kind
def test_all_formats_are_written_and_leave_what_is_there_without_force(made: Made, tmp_path: Path) -> None:
    for form in made.kind.formats:
        if form.suffix == "/" or form.is_race or form.name == "script":
            continue
        path = tmp_path / f"x{form.suffix}"
        path.write_text("mine")
        for refuse in (lambda to: made.kind.check([to]), lambda to: made.kind.export(made.result, to)):
            with pytest.raises(ProblemError, match="already exists"):
                refuse(path)
        assert path.read_text() == "mine"
        made.kind.export(made.result, path, force=True, write=form.write)
        assert path.read_bytes() != b"mine"
        assert not list(tmp_path.glob(".*"))


@every_kind
def test_what_it_says_is_in_the_pdf(made: Made, tmp_path: Path, program: Callable[[str], Path]) -> None:
    path = made.kind.export(made.result, tmp_path / "x.pdf")
    command = [str(program("pdftotext")), "-layout", str(path), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    plain = " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())
    for words in made.words:
        assert words in plain, words


def test_an_answer_has_the_colors_of_its_precisions_in_the_pdf() -> None:
    pages = Pages("")
    pages.set_compression(False)
    pages.sentence((Piece("BF16 AMP", "title", precision=Precision.BF16), Piece(" is the fastest")), 19)
    color = LIGHT.look(Precision.BF16).color
    shares = " ".join(f"{int(color[at : at + 2], 16) / 255:.4f}".rstrip("0") for at in (1, 3, 5))
    assert f"{shares} rg".encode() in bytes(pages.output())


def test_a_trade_off_names_what_its_shades_are(store: Store) -> None:
    grid = grid_of({"steps": 10}, [Axis(key="batch_size", values=(32, 64))])
    sweep_id = store.sweeps.add("Batches", grid, Plan(), device_name="a card")
    record = store.sweeps.find(sweep_id)
    for cell in grid.cells:
        place = {"sweep": sweep_id, "cell": cell.index, "repeat": 1}
        run = store.add(cell.experiment, comparison=record.comparison, **place)
        store.begin(run.id)
        speed = {"samples_per_second": 100.0, "peak_resident_mib": 1_000.0 + cell.index}
        summary = Summary(steps=10, **speed, best_validation_accuracy=0.5, final_validation_accuracy=0.5)
        store.record(run.id, [Finished(summary=summary)])
    sections = {section.title: section for section in document(store.sweeps.find(sweep_id)).sections}
    (picture,) = sections[TRADE_OFF].pictures
    assert (picture.title, picture.note) == ("Throughput vs. peak memory", "shade: accuracy, %")


@every_kind
def test_a_page_runs_no_text_and_fetches_nothing(made: Made, tmp_path: Path) -> None:
    text = made.kind.export(made.result, tmp_path / "x.html").read_text(encoding="utf-8")
    tags = Tags(text).tags
    assert tags.count("script") == (2 if made.kind is COMPARISON else 0) and tags.count("table") >= 1
    assert "default-src &#39;none&#39;" in text and "<script>alert" not in text
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= set(re.findall(r"(--[\w-]+):", text))


@pytest.mark.parametrize("made", KINDS[1:], indirect=True)
def test_pictures_are_sharp_and_say_what_they_show(made: Made, tmp_path: Path) -> None:
    made.kind.export(made.result, tmp_path / "x.svg")
    drawn = sorted(tmp_path.glob("x*.svg"))
    for path in drawn:
        texts = [element.text or "" for element in ElementTree.parse(path).getroot().iter()]
        assert any(text.startswith(f"Made by Ammeter {__version__} from ") for text in texts)
        assert any("a card" in text for text in texts)
    made.kind.export(made.result, tmp_path / "x.png")
    assert len(list(tmp_path.glob("x*.png"))) == len(drawn)
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.width == 2 * 926 and picture.info["Title"]
        assert isinstance(json.loads(picture.info["Description"]), dict)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        ("limit", ()),
        ("numerics", ("map", "range", "ladder", "islands", "advice")),
        ("profile", ("parts", "sides", "kernels", "operations", "modules", "advice")),
        ("sweep", ()),
        ("tune", ("gains", "trials")),
    ],
    indirect=["made"],
)
def test_csv_has_a_file_for_each_table_and_no_formulas(
    made: Made, names: tuple[str, ...], tmp_path: Path
) -> None:
    made.kind.export(made.result, tmp_path / "x.csv")
    assert {path.name for path in tmp_path.glob("*.csv")} == {"x.csv", *(f"x-{name}.csv" for name in names)}
    for path in tmp_path.glob("*.csv"):
        cells = [cell for row in rows_in(path) for cell in row.values()]
        assert cells and not any(cell.startswith(("=", "+", "@")) for cell in cells)
    if names:
        assert {"part", "sentence"} == set(rows_in(tmp_path / "x.csv")[0])


def test_a_precision_that_has_not_begun_is_left_out_of_a_stopped_limit(
    searched: Study[Limit], tmp_path: Path
) -> None:
    waiting = LimitSide(label="FP16 AMP", experiment=searched.experiments[0])
    stopped = searched.knowing(sides=(searched.answer.sides[0], waiting))
    value = json.loads(LIMIT.export(stopped, tmp_path / "x.json").read_text(encoding="utf-8"))
    assert [each["label"] for each in value["results"]] == ["FP32"]
    assert "FP16 AMP" not in LIMIT.export(stopped, tmp_path / "x.md").read_text(encoding="utf-8")
    none = searched.knowing(sides=(waiting,))
    page = LIMIT.export(none, tmp_path / "x.html").read_text(encoding="utf-8")
    assert "No part of the batch-size search was finished." in page


def test_a_tuning_has_the_script_of_its_winner(store: Store, tmp_path: Path) -> None:
    tuning = TUNING.model_copy(update={"winner": WINNER.model_copy(update={"path": None})})
    record = store.studies.begin(Study(answer=tuning, device_name="a card"))
    assert "bfloat16" in TUNE.export(record, tmp_path / "x.py").read_text(encoding="utf-8")
    begun = store.studies.begin(Study(answer=Tuning(experiment=WINNER), device_name="a card"))
    with pytest.raises(ProblemError, match="no fastest settings yet"):
        TUNE.export(begun, tmp_path / "y.py")
    assert (
        "No gains to draw: the tuning has not finished" in TUNE.export(begun, tmp_path / "y.svg").read_text()
    )


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (NUMERICS, "x.docx", "ends in .docx, which is not a format for the numerics"),
        (TRACES, "x.json", "is not a format for traces"),
        (PROFILE, "x", "has no ending"),
        (SWEEP, "", "is empty"),
        (LIMIT, "gone/x.csv", "does not exist"),
        (COMPARISON, ".", "is a folder"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_anything_starts(
    kind: ResultKind[Any], name: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ProblemError, match=said):
        kind.check([f"{tmp_path}/{name}" if name else ""])


def test_a_sweep_without_results_is_exported_too(store: Store, tmp_path: Path) -> None:
    grid = grid_of({}, [Axis(key="precision", values=("fp32", "bf16"))])
    record = store.sweeps.find(store.sweeps.add("Later", grid, Plan(), device_name="a card"))
    for form in SWEEP.formats:
        assert SWEEP.export(record, tmp_path / f"y{form.suffix}").stat().st_size

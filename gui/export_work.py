"""What an export does away from the window, in a thread with a store of its own. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.exports import formats
from engine.exports.chart_names import ThemeName
from engine.exports.content import Content, content_of
from engine.exports.mlflow_place import PREFIX
from engine.exports.placing import TakenError
from engine.exports.race_writing import race_writer
from engine.records.record import RunRecord
from engine.records.store import Store


@dataclass(frozen=True)
class Order:
    """Which runs are exported; `baseline` is the id of one of the side that the others are set against.

    `side` is the id of one of the side that leads the report and races the baseline; None: as these choose.
    `title` is what the report is called, "" for what it compares.
    """

    run_ids: tuple[str, ...]
    baseline: str | None = None
    side: str | None = None
    title: str = ""

    @property
    def words(self) -> str:
        return "1 run" if len(self.run_ids) == 1 else f"{len(self.run_ids):,} runs"


@dataclass(frozen=True)
class Written:
    """Where the export is now; `is_taken` where something else is there, which may not be replaced.

    `beside` are the other files that go with it.
    """

    path: Path
    is_taken: bool = False
    beside: tuple[Path, ...] = ()


def write(
    store_path: Path,
    order: Order,
    path: Path,
    *,
    force: bool,
    is_folder: bool = False,
    form: str | None = None,
    theme: ThemeName = "dark",
) -> Written:
    """Writes runs in the form of that name, or of the path's ending, or into a folder for TensorBoard.

    A race is written in the colours of `theme`. Raises ProblemError.
    """
    chosen = formats.format_named("tensorboard").write if is_folder else _writer(path, form, theme)
    with Store(store_path) as store:
        content = _content(store, order)
        try:
            written = formats.export(content, path, force=force, write=chosen)
        except TakenError:
            return Written(path, is_taken=True)
    return Written(written, beside=formats.files_beside(written))


def _writer(path: Path, form: str | None, theme: ThemeName) -> formats.Write:
    chosen = formats.format_for(path) if form is None else formats.format_named(form)
    return race_writer(chosen.suffix, theme) if chosen.is_race else chosen.write


def _content(store: Store, order: Order) -> Content:
    return content_of(store, order.run_ids, order.baseline, order.side, order.title)


def table(store_path: Path, order: Order, form: Literal["markdown", "latex"]) -> str:
    """The tables of a comparison as text. Raises ProblemError."""
    with Store(store_path) as store:
        content = _content(store, order)
        if form == "markdown":
            from engine.exports.markdown import markdown

            return markdown(content)
        from engine.exports.latex import latex

        return latex(content)


def send_to_mlflow(store_path: Path, order: Order, destination: str) -> tuple[str, ...]:
    """Sends runs to a folder or a tracking server; what to say of it. Raises ProblemError."""
    # its client takes a second to load
    from engine.exports.mlflow_runs import log_runs

    with Store(store_path) as store:
        return log_runs(_content(store, order), PREFIX + destination).sentences


def file_name(runs: Sequence[RunRecord]) -> str:
    """What a file is called that nobody has named yet, without its ending: what is in it, and of which day.

    One run gives its name; several their model, or how many there are, and their precisions.
    """
    if not runs:
        return "runs"
    models = dict.fromkeys(run.experiment.model for run in runs)
    precisions = dict.fromkeys(run.experiment.precision.value for run in runs)
    parts = [next(iter(models)) if len(models) == 1 else f"{len(models)} models", *precisions]
    told = runs[0].name if len(runs) == 1 else " ".join(parts)
    kept = "".join(letter if letter.isalnum() or letter in "-_ " else " " for letter in told)
    name = "-".join(kept.split())[:60].strip("-") or "run"
    return f"{name}-{max(run.created for run in runs).astimezone():%Y-%m-%d}"

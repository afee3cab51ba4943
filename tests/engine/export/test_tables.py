"""The tables are read back as their users read them: by pandas, as strict JSON, as Markdown and LaTeX."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.experiment.value import printable
from engine.export.content import Content, content_of
from engine.export.document import Document, Section
from engine.export.formats import COMPARISON
from engine.export.report.report import report_of
from engine.export.writers.text import escape_latex, escape_markdown, latex, markdown
from engine.protocol.summary import RankMetrics
from engine.store.store import Store


def test_pandas_reads_the_samples_to_the_last_bit_and_figures_and_runs_beside(
    pair: Content, exports_store: Store, tmp_path: Path
) -> None:
    COMPARISON.export(pair, tmp_path / "runs.csv")
    table = pd.read_csv(tmp_path / "runs.csv")
    assert len(table) == 200
    for run in pair.runs:
        rows, samples = table[table.run_id == run.id], exports_store.samples(run.id)
        assert set(rows.precision) == {run.experiment.precision.value}
        for name in ("step", "seconds", "loss", "learning_rate"):
            assert rows[name].tolist() == samples[name].tolist()
    # FP32 has no loss scale: its cells are empty
    assert table[table.side == "FP32"].grad_scale.isna().all()
    assert set(table[table.side == "FP16 AMP"].grad_scale) == {65_536.0}
    figures = pd.read_csv(tmp_path / "runs-summary.csv").set_index(["side", "figure"])
    assert figures.loc[("FP16 AMP", "samples_per_second"), "ratio"] == pytest.approx(2.5)
    runs = pd.read_csv(tmp_path / "runs-runs.csv")
    assert runs["setting.precision"].tolist() == ["fp32", "fp16"]
    assert set(runs["environment.device_name"]) == {"a card"}
    assert runs["summary.samples_per_second"].tolist() == [1_000.0, 2_500.0]


def test_no_name_can_be_a_formula_or_break_a_row(hostile: Content, tmp_path: Path) -> None:
    COMPARISON.export(hostile, tmp_path / "x.csv")
    for path in tmp_path.glob("x*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert len({len(row) for row in rows}) == 1
        assert not any(cell.startswith(("=", "+", "@", "-c")) for row in rows for cell in row)
        assert path.read_bytes().count(b"\r\n") == len(rows)
    samples = pd.read_csv(tmp_path / "x.csv")
    assert np.isinf(samples.loss).sum() == 2
    assert b",NaN," in (tmp_path / "x.csv").read_bytes()


def test_json_holds_everything_and_is_strict(hostile: Content, tmp_path: Path) -> None:
    COMPARISON.export(hostile, tmp_path / "x.json")

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    whole = json.loads((tmp_path / "x.json").read_text(), parse_constant=refuse)
    assert [run["name"] for run in whole["runs"]] == [run.name for run in hostile.runs]
    assert whole["baseline"] == "FP32" and not whole["clean"]
    diverged = next(run for run in whole["runs"] if run["experiment"]["precision"] == "fp16")
    assert diverged["samples"]["loss"][-1] == "NaN" and "Infinity" in diverged["samples"]["loss"]
    assert diverged["environment"]["device_name"] == "a card" and diverged["epochs"]


def test_markdown_has_tables_of_even_rows_and_no_markup_of_names(hostile: Content) -> None:
    text = markdown(report_of(hostile))
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines()]
    tables = [set(rows) for is_table, rows in groupby(bars, key=bool) if is_table]
    sides = {len(hostile.comparison.sides) + 2}
    assert tables[2:] == [sides, {3}, {3}] and all(len(columns) == 1 for columns in tables)
    assert re.search(r"(?<!\\)<", text) is None
    assert "a card" in text and "| Batch size | 64 |" in text


def test_latex_escapes_what_would_run(hostile: Content, pair: Content) -> None:
    text = latex(report_of(pair))
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert "2,500 (2.50$\\times$) \\\\" in text and "% Device name: a card" in text
    assert escape_latex(r"a_b & 100% $x$ \input{y} ~^#") == (
        r"a\_b \& 100\% \$x\$ \textbackslash{}input\{y\} \textasciitilde{}\textasciicircum{}\#"
    )
    assert escape_latex("\N{GRINNING FACE} é --") == "? é -{}-"
    assert all(
        line.startswith("%") or r"\input" not in line for line in latex(report_of(hostile)).splitlines()
    )


RANKS = (
    RankMetrics(device="cuda:0", samples_per_second=520.0, step_ms=123.0, peak_mib=2_048.0, exposed_ms=40.0),
    RankMetrics(device="cuda:1", samples_per_second=500.0, step_ms=128.0, peak_mib=1_900.0, exposed_ms=8.0),
)


def test_every_format_has_the_figures_of_each_device(
    exports_store: Store, trained: Callable[..., str], tmp_path: Path
) -> None:
    ids = [trained("fp16"), trained("fp16", devices=2, ranks=RANKS)]
    content = content_of(exports_store, ids)
    for suffix in ("json", "csv"):
        COMPARISON.export(content, tmp_path / f"x.{suffix}")
    rows = pd.read_csv(tmp_path / "x-runs.csv")
    assert rows["setting.devices"].tolist() == [1, 2]
    assert rows["summary.ranks.1.device"].tolist()[1] == "cuda:1"
    assert rows["summary.ranks.0.samples_per_second"].tolist()[1] == 520.0
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert [rank.model_dump() for rank in RANKS] == next(
        run["summary"]["ranks"] for run in json.loads(text)["runs"] if run["id"] == ids[1]
    )
    report = markdown(report_of(content))
    assert "Rank 1, cuda:1 | 500 img/s, slowest | 128 ms | – | 1.9 GiB | –" in report
    assert "Rank 0, cuda:0 | 520 img/s | 123 ms | – | 2.0 GiB, largest | –" in report
    assert "| Devices | 1 | 2 |" in report


@pytest.mark.parametrize(
    "code", ["ammeter run", "a\n```\n[x](http://x)", "````\nb", "c```", "`", "\x1b[2J\n~~~"]
)
def test_code_ends_its_fence_in_markdown_with_nothing_in_it(code: str) -> None:
    section = Section("Again", (code,), is_code=True)
    text = markdown(Document("Title", "Subject", (section,), "Made"))
    before, fence, after = re.split(r"^(`{3,})$", text, maxsplit=1, flags=re.MULTILINE)
    inside, end, rest = after.partition(f"\n{fence}\n")
    assert inside.strip("\n") == printable(code) and end and "Made" in rest and "Again" in before


@pytest.mark.parametrize(
    "text", ["- x", "+ x", "1. x", "23) x", "---", "===", "# x", "> x", "| x |", "* x", "~~~"]
)
def test_no_sentence_begins_a_list_or_a_line_in_markdown(text: str) -> None:
    assert (
        re.match(r"\d*\\", escape_markdown(text)) and escape_markdown("A run - of 1. x") == "A run - of 1. x"
    )

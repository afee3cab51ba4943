"""Text that others wrote is shown and never obeyed: by no terminal, no spreadsheet, no page, no sentence."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli import app as cli
from engine.cli.session import RunProgress
from engine.experiment.experiment import Experiment
from engine.experiment.presets import broken_presets, own_presets_folder, preset
from engine.experiment.problem import Problem, request_problem
from engine.experiment.value import cell_text, one_line, printable, shortened
from engine.store.store import Store

EVIL = "[/x] [link=file:///etc]here[/link] \x1b]0;title\x07 \x1b[2J \x9b2J \r\n\x00 \u202egnp.exe \ud800 =1+1"
OBEYED = set(map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), 0xD800)))


@given(st.text(st.characters()) | st.sampled_from([EVIL, "\x1b" * 50]))
def test_nothing_that_is_shown_is_obeyed(text: str) -> None:
    assert not OBEYED & (set(printable(text)) - {"\n", "\t"})
    assert not OBEYED & set(one_line(text))
    assert printable(printable(text)) == printable(text)
    assert len(shortened(text)) <= 60


def test_what_is_harmless_stays_and_a_value_of_any_kind_is_quoted_in_a_few_words() -> None:
    for text in ("Run 14", "жёлтый 🚀", "שלום", "<b>bold</b> & 'so'", "[red]", "a\tb\nc"):
        assert printable(text) == text
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    values = ("x" * 10_000_000, 10**5_000, -(10**5_000), deep, {"a": deep}, list(range(10**6)), b"\x1b", None)
    assert all(len(shortened(value)) <= 60 for value in values)
    assert shortened([1, "two"]) == "[1, 'two']" and shortened(Path("a/b")) == "a/b"


def test_a_cell_is_no_formula() -> None:
    signs = (*"＝＋－＠﹦﹢﹣﹫", " =", "\u00a0=", "\u200b=", "\ufeff＝", "\x00=", "\n@")
    for text in (
        "=cmd|'/c calc'!A1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        *(f"{sign}1" for sign in signs),
    ):
        written = io.StringIO()
        csv.writer(written).writerow([cell_text(text)])
        assert not OBEYED & set(cell_text(text).replace("\n", "").replace("\t", ""))
        assert written.getvalue().lstrip('"').startswith("'")
    assert cell_text("Run \x1b[2J") == "Run \ufffd[2J"


def test_a_problem_can_hold_anything_and_says_it_in_bounds() -> None:
    problem = request_problem(EVIL * 1_000, EVIL, key=EVIL, value=EVIL * 100_000)
    assert len(problem.model_dump_json()) < 100_000
    for text in (problem.message, problem.remedy, problem.key, problem.value):
        assert text is not None and not OBEYED & (set(text) - {"\n", "\t"})
    assert Problem.model_validate_json(problem.model_dump_json()) == problem
    long = request_problem(f"The file {'x' * 5_000} cannot be read.", "Check the path.")
    assert long.message.startswith("The file xxx") and long.message.endswith("xxx cannot be read.")
    assert len(long.message) == 600


def test_a_name_is_kept_on_one_line_that_can_be_shown(tmp_path: Path) -> None:
    with Store(tmp_path / "ammeter.sqlite") as store:
        run = store.add(Experiment(), name=EVIL, label=EVIL, comparison=store.add_comparison(EVIL))
        store.set_note(run.id, EVIL)
        store.set_tags(run.id, ["\x1b[2J"])
        kept = store.run(run.id)
        shown = (kept.name, kept.label or "", *kept.tags, kept.note, store.comparisons()[0].title)
        assert all(text and not OBEYED & (set(text) - {"\n"}) for text in shown)
        store.rename(run.id, "x" * 1_000_000)
        assert len(store.run(run.id).name) == 1_000


def test_an_old_store_with_such_names_stays_readable(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = EVIL.replace("\ud800", "")
    with Store() as store:
        run_id = store.add(Experiment(), comparison=store.add_comparison("a"), label="b").id
    with sqlite3.connect(home / "ammeter.sqlite") as connection:
        connection.execute("UPDATE runs SET name = ?1, note = ?1, detail = ?1, label = ?1", (evil,))
        connection.execute("UPDATE runs SET tags = ?", (json.dumps([evil]),))
        connection.execute("UPDATE comparisons SET title = ?", (evil,))
    connection.close()
    for arguments in (["results"], ["show", run_id], ["delete", run_id]):
        assert cli.main(arguments) == 0
        said = "".join(capsys.readouterr())
        assert not OBEYED & (set(said) - {"\n"})
        assert arguments == ["results"] or "[/x]" in said


def test_the_verbs_quote_what_they_refuse_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    long = EVIL + "x" * 100_000
    for arguments in (
        ["show", long],
        ["run", "--preset", long],
        ["run", "--set", f"{long}=1"],
        ["run", "--set", f"steps={long}"],
        ["run", "--set", ".".join("a" * 30_000)],
        ["run", "--model", long, "--set", "steps=0"],
        ["run", "--config", EVIL],
        ["export", long, "--to", "x.csv"],
        ["export", "any", "--to", "x" * 5_000],
        ["import", "x" * 5_000],
        ["compare", "--sweep", f"batch_size={'x' * 5_000}"],
        [long],
        ["run", long],
    ):
        assert cli.main(arguments) == 2
        said = "".join(capsys.readouterr())
        assert said and len(said) < 2_000 and not OBEYED & (set(said) - {"\n"})


def test_markup_in_a_title_is_text_on_the_progress_line(monkeypatch, capsys):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    with RunProgress(EVIL) as progress:
        progress._say(EVIL)
        progress._progress.refresh()
    drawn = screen.getvalue()
    assert "[/x]" in drawn and "[link=" in drawn
    assert not any(order in drawn for order in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\x00"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("model = " + "[" * 100_000, "nested too deeply"),
        ("a." * 100_000 + "a = 1", "nested too deeply"),
        ("steps = " + "9" * 5_000, "too many digits"),
        ("steps = 0x" + "f" * 5_000, "number"),
        ("x" * 1_000_000 + " = 1", "no setting named"),
        ("model = '" + "x" * 1_000_000 + "'", "at most 200 characters"),
        ("#" * 10_000_000, "larger than 4,096 KiB"),
        ("\n".join(f"x{number} = 1" for number in range(50_000)), "too many keys"),
        ("steps = " + "[" * 90 + "]" * 90, "whole number"),
    ],
    ids=("deep", "dotted", "digits", "hexadecimal", "key", "value", "size", "keys", "list"),
)
def test_a_file_of_settings_is_refused_in_a_sentence(tmp_path, capsys, settings, said):
    file = tmp_path / "settings.toml"
    file.write_text(settings)
    assert cli.main(["run", "--config", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told and len(told) < 2_000


def test_a_preset_that_cannot_be_is_left_out_in_a_sentence() -> None:
    folder = own_presets_folder()
    folder.mkdir(parents=True)
    (folder / "deep.toml").write_text("title = " + "[" * 100_000)
    (folder / "large.toml").write_text("title = 'a'\n" + "#" * 10_000_000)
    (folder / "about.toml").write_text("title = 'a'\nabout = [1]\n[experiment]\n")
    (folder / "evil.toml").write_text('title = "\\u001b[2J[/x]"\n[experiment]\n')
    assert [len(problem.message) < 500 for problem in broken_presets()] == [True] * 3
    assert preset("evil").title == "\ufffd[2J[/x]"

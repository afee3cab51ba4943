"""The code of a model's own file is kept, shown and compared by its text, and nothing here runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cli.app import main
from engine.compare.sides import sides_of, training_differences
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code, read_code
from engine.experiment.paths import store_path
from engine.experiment.presets import preset, save_own
from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.store.store import Store
from engine.words.names import applying_settings, setting_text

Trained = Callable[..., str]
FILE = """from pathlib import Path

from layers import WIDTH

(Path(__file__).parent / "was_here").touch()


def model():
    raise SystemExit("model() was called")


def batch(size):
    raise SystemExit("batch() was called")
"""
BESIDE = '\tWIDTH = 8  # "a tab", \\\\ and \N{SNOWMAN}\n'.lstrip()


@pytest.fixture
def exports_store(home: Path) -> Iterator[Store]:
    """The store that the verbs read."""
    with Store(store_path()) as opened:
        yield opened


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A file that shows by another file that it was run."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "layers.py").write_text(BESIDE, encoding="utf-8")
    (folder / "net.py").write_text(FILE, encoding="utf-8")
    return folder / "net.py"


def settings(code: Code, **others: Any) -> dict[str, Any]:
    return {"model": code.file, "code": code.to_json(), "dataset": "own", **others}


def own(code: Code, **others: Any) -> Experiment:
    return experiment_from(settings(code, **others))


@pytest.mark.slow
def test_no_verb_and_no_export_runs_it(
    net: Path, trained: Trained, exports_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, before = read_code(net), set(sys.modules)
    ids = [trained(precision, **settings(code)) for precision in ("fp32", "bf16")]
    for form in COMPARISON.formats:
        if not form.is_race:
            assert main(["export", *ids[:1], "--to", str(tmp_path / f"x{form.suffix}"), "--force"]) in (0, 2)
    assert main(["export", *ids, "--to", str(tmp_path / "x.ammeter"), "--force"]) == 0
    for verb in (["results"], ["results", "--json"], ["show", ids[0]], ["settings"], ["presets"]):
        assert main(verb) == 0
    exports_store.remove(ids)
    assert main(["import", str(tmp_path / "x.ammeter")]) == 0
    assert exports_store.run(ids[0]).experiment.own_code == code
    assert not (net.parent / "was_here").exists() and not list(tmp_path.glob("**/was_here"))
    assert not {"layers", "net"} & (sys.modules.keys() - before)


def test_show_prints_the_kept_text(net: Path, trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    run_id, code = trained(**settings(read_code(net))), read_code(net)
    net.unlink()
    assert main(["show", run_id, "--code"]) == 0
    assert capsys.readouterr().out == f"{FILE}\n# layers.py, next to net.py\n{BESIDE}"
    assert main(["show", run_id, "--code", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["code"]["text"] == FILE and found["code"]["sha256"] == code.sha256
    assert Code.model_validate_json(found["experiment"]["code"]) == code
    assert main(["show", run_id]) == 0
    shown = capsys.readouterr().out
    assert f"net.py, {code.sha256[:8]}" in shown and "was_here" not in shown
    assert main(["show", trained(), "--code"]) == 2
    assert "has no model file" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".md", ".html", ".tex"])
def test_reports_and_tables_name_the_code_by_its_hash(
    suffix: str, net: Path, trained: Trained, exports_store: Store, tmp_path: Path
) -> None:
    first = read_code(net)
    other = first.model_copy(update={"text": FILE + "\n# another\n"})
    ids = [trained("fp32", **settings(first)), trained("fp16", **settings(other))]
    COMPARISON.export(content_of(exports_store, ids), tmp_path / f"x{suffix}")
    text = "".join(path.read_text("utf-8") for path in tmp_path.glob("x*"))
    assert f"net.py, {first.sha256[:8]}" in text and f"net.py, {other.sha256[:8]}" in text
    assert "was_here" not in text


def test_the_same_code_in_another_folder_is_the_same_setting(
    net: Path, trained: Trained, exports_store: Store
) -> None:
    code = read_code(net)
    moved = code.model_copy(update={"folder": "/elsewhere"})
    changed = code.model_copy(update={"beside": {"layers.py": "WIDTH = 9\n"}})
    runs = [
        exports_store.run(trained(**settings(each, seed=seed))) for seed, each in enumerate((code, moved))
    ]
    assert applying_settings(own(code)) == applying_settings(own(moved))
    assert setting_text("code", code.to_json()) == applying_settings(own(code))["code"] == code.short
    assert len(sides_of(runs)) == 1
    keys = [exports_store.run(trained(**settings(each))).settings_but_precision for each in (code, moved)]
    assert keys[0] == keys[1]
    other = exports_store.run(trained("fp16", **settings(changed)))
    assert other.settings_but_precision != keys[0]
    titles = [side.title for side in sides_of([*runs, other])]
    assert titles == ["FP32, code 1", "FP16 AMP, code 2"]
    assert not training_differences(own(code), own(moved))
    (work,) = training_differences(own(code), own(changed))
    assert (work.what, work.one, work.other) == ("code", code.short, changed.short)


def test_a_preset_keeps_the_code(net: Path, home: Path) -> None:
    text = FILE + "".join(f"value.a.b.c.d.e.f.g.h = {number}.0\n" for number in range(400))
    net.write_text(text, encoding="utf-8")
    code = read_code(net)
    save_own("Mine", own(code))
    ((_, experiment),) = preset("mine").experiments(has_gpu=False)
    assert experiment.own_code == code

"""Each benchmark starts: its imports are there, and it prints its options."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
IMPORTED_BY_OTHERS = {"by_hand", "planted", "side_by_side", "views"}
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != Path(__file__).stem)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_imports_what_it_names_and_tells_its_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    monkeypatch.syspath_prepend(str(FOLDER))
    has_options = "__main__" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    try:
        if not has_options:
            runpy.run_path(str(FOLDER / f"{name}.py"))
            return
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    finally:
        for module in IMPORTED_BY_OTHERS:
            sys.modules.pop(module, None)
    assert left.value.code in (0, None)
    assert "usage" in capsys.readouterr().out

"""A missing package is named with the command that adds it to the installation of the worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.installation.missing import missing_package, package_remedy


def error_of(statement: str) -> ImportError:
    with pytest.raises(ImportError) as raised:
        exec(statement, {})
    return raised.value


@pytest.mark.parametrize(
    ("statement", "package"),
    [
        ("import not_there", "not-there"),
        ("from not_there.part import one", "not-there"),
        ("raise ModuleNotFoundError('No module named cv2', name='cv2')", "opencv-python-headless"),
        ("raise ImportError(\"Missing optional dependency 'tables'. Use pip or conda.\")", "tables"),
        ("raise ImportError('LlamaTokenizer requires it: `pip install sentencepiece`.')", "sentencepiece"),
        ("import torch.not_there", None),
        ("from torch import not_there", None),
    ],
)
def test_the_package_is_known_by_the_import(statement: str, package: str | None) -> None:
    assert missing_package(error_of(statement)) == package


def test_the_command_adds_it_where_the_worker_finds_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = error_of("import not_there")
    own = package_remedy(error, "net.py")
    assert (
        own is not None and f"uv pip install --python {sys.executable} not-there" in own and "net.py" in own
    )
    import torch

    # as where the program was installed, and its engine was fetched
    monkeypatch.setenv("AMMETER_ENGINE", str(Path(torch.__file__).parents[2]))
    assert "`ammeter engine install --with not-there`" in str(package_remedy(error, "net.py"))
    monkeypatch.setenv("AMMETER_REMOTE", "1")
    assert "`ammeter engine install --machine NAME --with not-there`" in str(package_remedy(error, "net.py"))
    assert package_remedy(ValueError("pip install x"), "net.py") is None

"""Kept code is refused at the border where one of its names would lead anywhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own import trust
from engine.experiment.own.code import Code, code_from, read_code, with_code
from engine.experiment.own.trust import TrustedCode, UntrustedCodeError, is_untrusted
from engine.experiment.paths import trust_path
from engine.experiment.problem import Kind, ProblemError

KEPT: dict[str, Any] = {"file": "net.py", "folder": "/there", "text": "def model(): ...\n"}


@pytest.mark.parametrize(
    "name",
    [
        "", ".py", "/", "/etc/layers.py", "../layers.py", "a/../layers.py", "./layers.py", "a//layers.py",
        "a\\layers.py", "..\\layers.py", "\\\\host\\share\\layers.py", "C:layers.py", "C:\\layers.py",
        "C:/layers.py", "layers.py\0", "lay\0ers.py", "layers", "layers.so", "layers.py\n", "a b.py",
    ],
)  # fmt: skip
def test_a_module_has_a_name_that_an_import_gives(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be imported"):
        Code(**KEPT, beside={name: "WIDTH = 8\n"})
    kept = Code(**KEPT).model_copy(update={"beside": {name: "WIDTH = 8\n"}})
    with pytest.raises(ProblemError, match="cannot be used"):
        Experiment.from_json(Experiment().model_copy(update={"code": kept.to_json()}).to_json())


@pytest.mark.parametrize("name", ["layers.py", "parts/__init__.py", "parts/größe.py"])
def test_modules_and_packages_are_kept(name: str) -> None:
    kept = Code(**KEPT, beside={name: "WIDTH = 8\n"})
    assert code_from(kept.to_json()) == kept


@pytest.mark.parametrize(
    "file",
    ["C:net.py", "a\\net.py", "a/net.py", "net\0.py", "net.py\n", "..\\net.py", "a\nb.py", "a\u202eb.py"],
)
def test_the_file_has_the_name_of_a_file(file: str) -> None:
    with pytest.raises(ValidationError):
        Code(**{**KEPT, "file": file})


@pytest.mark.parametrize("folder", ["", ".", "models", "../models", "C:models", "/there\0"])
def test_its_folder_is_a_whole_path(folder: str) -> None:
    with pytest.raises(ValidationError, match="not an absolute path"):
        Code(**{**KEPT, "folder": folder})


@pytest.mark.parametrize("folder", ["/there", "C:\\there", "\\\\host\\share"])
def test_which_may_be_that_of_another_system(folder: str) -> None:
    assert Code(**{**KEPT, "folder": folder}).folder == folder


def test_a_file_whose_name_cannot_be_kept_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "NET.PY").write_text(KEPT["text"])
    with pytest.raises(ProblemError, match="has a name that cannot be stored"):
        read_code(tmp_path / "NET.PY")


@pytest.mark.parametrize(
    "name", ["{0}/secret", "//host/share/secret", "parts.{0}/secret", "..secret", "my-part"]
)
def test_a_name_in_a_call_leads_to_no_file_that_an_import_statement_could_not_name(name, tmp_path):
    (tmp_path / "secret.py").touch()
    folder = tmp_path / "models"
    (folder / "parts").mkdir(parents=True)
    for part in ("__init__.py", "my-part.py", "parts/__init__.py", "parts/1.py", "parts/layers.py"):
        (folder / part).touch()
    called = f"import_module({name.format(tmp_path)!r})\nimport_module(f'parts.{{name}}')\n"
    (folder / "net.py").write_text(called, encoding="utf-8")
    assert set(read_code(folder / "net.py").beside) == {"parts/__init__.py", "parts/layers.py"}


@pytest.mark.parametrize("code", [None, Code(**KEPT).to_json()])
def test_another_machine_is_not_asked_for_a_file_that_settings_name(code, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ProblemError, match="is on a remote machine"):
        patch.setattr(Path, "exists", lambda path: pytest.fail(f"looked for {path}"))
        with_code({"model": "//host/x.py", "code": code}, names_model=True, names_dataset=False)


TEXT = "from layers import Net\n\ndef model():\n    return Net()\n"
CODE = Code(file="net.py", folder="/there", text=TEXT, beside={"layers.py": "class Net: pass\n"})


def own(code: Code = CODE, **settings: Any) -> Experiment:
    return experiment_from({"model": code.file, "code": code.to_json(), "device": "cpu", **settings})


def copied(code: Code, **changes: Any) -> Code:
    return Code.model_validate({**code.model_dump(), **changes})


def test_code_is_known_by_its_text_and_its_folder() -> None:
    trusted = TrustedCode()
    trusted.add(CODE)
    trusted.add(CODE)
    trusted.check(own(precision="bf16"))
    trusted.check(Experiment())
    # other modules may lie there
    assert not trusted.has(copied(CODE, folder="/elsewhere"))
    changed = copied(CODE, beside={"layers.py": "import os\nclass Net: pass\n"})
    with pytest.raises(UntrustedCodeError) as raised:
        trusted.check(own(changed))
    problem = raised.value.problem
    assert problem.kind is Kind.REQUEST and is_untrusted(problem)
    assert problem.message.startswith("The code of net.py (")
    assert "ammeter show RUN --code" in problem.remedy and "--trust-code" in problem.remedy
    assert raised.value.code == changed


def test_trust_outlives_the_program_however_the_system_ends_lines() -> None:
    TrustedCode().name(CODE)
    assert TrustedCode().has(CODE) and TrustedCode().is_named(CODE.place)
    assert len(trust_path().read_text(encoding="ascii").splitlines()) == 2
    TrustedCode().add(CODE)
    kept = trust_path().read_bytes()
    trust_path().write_bytes(kept.replace(b"\n", b"\r\n"))
    assert TrustedCode().has(CODE)


def test_accepting_a_text_is_not_naming_a_path() -> None:
    trusted = TrustedCode()
    trusted.add(CODE)
    assert trusted.has(CODE) and not trusted.is_named(CODE.place)


def test_a_copied_folder_brings_no_trust(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    TrustedCode().name(CODE)
    shutil.copytree(home, tmp_path / "copy")
    monkeypatch.setenv("AMMETER_HOME", str(tmp_path / "copy"))
    assert not TrustedCode().has(CODE) and not TrustedCode().is_named(CODE.place)
    assert home not in trust_path().parents


@pytest.mark.parametrize("here", [("another machine", "1000"), ("this one", "another user")])
def test_settings_of_another_machine_or_user_bring_no_trust(here, monkeypatch):
    monkeypatch.setattr(trust, "_here", lambda: ("this one", "1000"))
    TrustedCode().name(CODE)
    assert TrustedCode().has(CODE)
    monkeypatch.setattr(trust, "_here", lambda: here)
    assert not TrustedCode().has(CODE) and not TrustedCode().is_named(CODE.place)


@pytest.mark.skipif(os.name != "posix", reason="files have no owner and no mode")
def test_a_file_that_others_can_write_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    TrustedCode().name(CODE)
    assert trust_path().stat().st_mode & 0o777 == 0o600
    trust_path().chmod(0o666)
    assert not TrustedCode().has(CODE)
    trust_path().chmod(0o600)
    assert TrustedCode().has(CODE)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert not TrustedCode().has(CODE)


def test_where_nothing_can_be_kept_it_holds_for_the_program() -> None:
    trust_path().parent.parent.mkdir(parents=True, exist_ok=True)
    trust_path().parent.write_text("a file where the folder would be")
    trusted = TrustedCode()
    trusted.name(CODE)
    assert trusted.has(CODE) and trusted.is_named(CODE.place)
    assert not TrustedCode().has(CODE)

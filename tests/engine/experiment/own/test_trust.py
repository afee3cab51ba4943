"""Whose code may run is kept for this machine, this user and this folder, and no other brings it along."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own import trust
from engine.experiment.own.code import Code
from engine.experiment.own.trust import TrustedCode, UntrustedCodeError, is_untrusted
from engine.experiment.paths import trust_path
from engine.experiment.problem import Kind
from engine.store import schema
from engine.store.store import Store

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


def test_trust_outlives_the_program() -> None:
    TrustedCode().name(CODE)
    assert TrustedCode().has(CODE) and TrustedCode().is_named(CODE.place)
    assert len(trust_path().read_text(encoding="ascii").splitlines()) == 2


def test_trust_is_read_however_the_system_ends_lines() -> None:
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


def test_trust_that_a_store_brings_is_not_believed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = schema.MIGRATIONS.index(schema._NO_TRUSTED_CODE)
    with monkeypatch.context() as then:
        then.setattr("engine.store.database.MIGRATIONS", schema.MIGRATIONS[:version])
        then.setattr("engine.store.database.VERSION", version)
        Store(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO trusted_code VALUES (?, ?, 0)", (CODE.sha256, CODE.folder))
    with Store(path):
        assert not TrustedCode().has(CODE)
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "runs" in tables and "trusted_code" not in tables

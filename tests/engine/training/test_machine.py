"""What this machine offers, and whether it is ready."""

from __future__ import annotations

from engine.experiment.checks import Catalog
from engine.training.doctor import examine_torch, read_catalog


def test_the_catalog_survives_the_trip() -> None:
    catalog = read_catalog()
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog


def test_the_cpu_is_the_last_device_and_names_are_unique() -> None:
    catalog = read_catalog()
    assert catalog.devices[-1].name == "cpu" and catalog.devices[-1].title
    for entries in (catalog.devices, catalog.models, catalog.datasets):
        names = [entry.name for entry in entries]
        assert len(names) == len(set(names))


def test_the_doctor_runs_a_real_step() -> None:
    checks = {check.name: check for check in examine_torch()}
    assert {"Device", "Tensor Cores", "BF16"} < set(checks)
    (step,) = [check for name, check in checks.items() if name.startswith("A step under")]
    assert step.status == "ok"
    assert all(check.status != "problem" for check in checks.values())

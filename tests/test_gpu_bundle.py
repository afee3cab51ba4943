"""What the bundle for a machine without a package index packs; the names are resolved here, without one."""

from __future__ import annotations

import bundle
from day.steps.tests import PLUGINS


def test_the_bundle_has_whatever_the_project_needs_and_torch_does_not_bring() -> None:
    project = bundle.project()
    names = {bundle.name_of(requirement) for requirement in project["project"]["dependencies"]}
    needed = bundle.needed(project)
    resolved = [
        f"{name}==1.0" for name in (*names, "pytest", "typing-extensions", "markupsafe", "shiboken6", "sympy")
    ]
    there = [
        "torch==2.11",
        "numpy==1.0",
        "jinja2==1.0",
        "markupsafe==1.0",
        "sympy==1.0",
        "typing_extensions==1.0",
    ]
    packed = {bundle.name_of(requirement) for requirement in bundle.packed(resolved, there, needed)}
    assert names - set(bundle.OWN) <= packed and "truststore" in packed and "jinja2" in packed
    assert {"pytest", "shiboken6", "typing-extensions"} <= packed
    assert not packed & {*bundle.OWN, "markupsafe", "sympy"}


def test_the_bundle_has_the_plugins_of_the_tests_and_no_checker() -> None:
    needed = {bundle.name_of(requirement) for requirement in bundle.needed(bundle.project())}
    plugins = {
        plugin.partition(".")[0].replace("pytestqt", "pytest-qt").replace("_", "-") for plugin in PLUGINS
    }
    assert {"pytest-xdist" if plugin == "xdist" else plugin for plugin in plugins} - {"day"} <= needed
    assert "pytest" in needed and "torch" in needed and "ruff" not in needed and "pandas" not in needed

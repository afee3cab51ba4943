"""The full test: in a bare root, install the package and PyTorch, train hello-amp, and remove all."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from smoke_test.root import USER, Root, add_program_packages, mount_root
from smoke_test.steps import INSTALLED, Steps, check, output_of, wait_for
from smoke_test.window import Desktop, Window, desktop
from tests.wheel_index import Fault, OfficialIndexes

_ENGINE = Path(f"home/{USER}/.local/share/Ammeter/engine")


@dataclass
class Whole:
    """The full smoke test: installs the package and PyTorch in a bare system, trains, upgrades and removes.

    `shots` is the folder for screenshots.
    """

    steps: Steps
    package: Path
    higher: Path
    wheels: Path
    shots: Path
    shared: list[Path]
    scratch: Path
    marks: dict[str, float] = field(default_factory=dict)

    def walk(self, lower: Path) -> None:
        """Run all steps of the test. Raises SmokeError at the first failure."""
        runtime = self.scratch / "runtime"
        runtime.mkdir(parents=True)
        # the user's programs reach it by this path
        for folder in (self.scratch, self.scratch.parent):
            folder.chmod(0o755)
        with self.steps.step("The root is bare: no Python, no uv, no compiler"):
            root = mount_root(lower, self.scratch, [runtime, *self.shared])
            root.check_is_bare()
        self._began = time.monotonic()
        with self.steps.step("The package installs without network, and `ammeter` is on the PATH"):
            root.run("dpkg", "--force-unsafe-io", "--install", self._inside(root, self.package))
            said = root.run("ammeter", "--version", is_user=True)
            check(_version(self.package) in said, f"`ammeter --version` says {said.strip()}")
        add_program_packages(self.wheels, next(root.at(INSTALLED).glob("python/lib/python3.*/site-packages")))
        with desktop(runtime, self.shots / "desktop.log") as shown, OfficialIndexes(self.wheels) as indexes:
            shown.environment |= indexes.environment(runtime)
            shown.environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
            with self._program(root, shown) as window:
                self._set_up_engine(root, shown, window, indexes)
                self._train(root, shown, window)
                self._compare_and_export(root, shown, window)
        self._upgrade(root)
        self._uninstall(root)
        self._tell_times()

    def _tell_times(self) -> None:
        whole, copying = self.marks["finished"], self.marks["fetch"] + self.marks["unpack"]
        print(f"{'from the bare root to the finished hello-amp':<46}{whole:>8.1f} s")
        for name, title in (("fetch", "of it fetching"), ("unpack", "of it unpacking, and training a step")):
            print(f"{title:<46}{self.marks[name]:>8.1f} s{self.marks[name] / whole:>8.0%}")
        print(f"{'together':<46}{copying:>8.1f} s{copying / whole:>8.0%}")

    @contextmanager
    def _program(self, root: Root, shown: Desktop) -> Iterator[Window]:
        """The program with its window; closed by the keyboard at the end."""
        with (self.shots / "program.log").open("w") as said:
            with self.steps.step("The window opens"):
                window = Window(shown)
                command = root.command("ammeter", is_user=True)
                program = subprocess.Popen(
                    command, env=shown.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
                )
                window.wait_for("Workspace Train", seconds=60)
            self._shoot(shown, "1-window")
            try:
                yield window
                with self.steps.step("The window closes, and nothing is left running"):
                    shown.press("ctrl+q")
                    wait_for(lambda: program.poll() is not None, "the program still runs", 30)
                    check(program.returncode == 0, f"the program ended with status {program.returncode}")
                    wait_for(lambda: not _processes_of(root), "a process of the program still runs", 20)
            except BaseException:
                self._shoot(shown, "failed")
                (self.shots / "failed.txt").write_text("\n".join(window.texts()))
                raise
            finally:
                program.kill()
                program.wait()

    def _set_up_engine(self, root: Root, shown: Desktop, window: Window, indexes: OfficialIndexes) -> None:
        engine = root.at(_ENGINE)
        with self.steps.step("The page of the engine says what will be fetched"):
            shown.press("ctrl+1")
            window.wait_for("Download and install", "push button", seconds=120)
            self._shoot(shown, "2-engine-offered")
        with self.steps.step("The engine is fetched, over a connection that is cut"):
            indexes.order(Fault(path="torch-", cut_after=5_000_000, times=4))
            # what uv has read of the wheels before does not count
            indexes.requests.clear()
            clicked = time.monotonic()
            window.click("Download and install", "push button")
            wait_for(lambda: list(engine.glob("downloads/*.part")), "nothing is fetched", 60, every=0.02)
            self._shoot(shown, "3-engine-fetched")
            wait_for(lambda: list(engine.glob("installations/*")), "the engine is not fetched", 1200)
            self.marks["fetch"] = time.monotonic() - clicked
            cut = [request for request in indexes.requests if request.first_byte]
            check(cut, "the cut connection was not resumed where it broke off")
        with self.steps.step("It is unpacked"):
            began = time.monotonic()
            wait_for(
                lambda: list(engine.glob("installations/*/installation.json")), "it is not unpacked", 1200
            )
            self.marks["unpack"] = time.monotonic() - began
        with self.steps.step("It trains a step, and only then is in use"):
            wait_for((engine / "current.json").exists, "the engine is not in use", 600)
            window.wait_for("Start training", "push button")
            self._shoot(shown, "4-engine-ready")
            check(not list(engine.glob("downloads/*.whl")), "the fetched wheels were kept")

    def _train(self, root: Root, shown: Desktop, window: Window) -> None:
        with self.steps.step("The preset hello-amp trains in FP16 and FP32"):
            shown.press("ctrl+1")
            window.click("Fashion-MNIST", "combo box")
            shown.type("Hello")
            shown.press("Return")
            window.wait_for("Hello, AMP", "combo box")
            window.click("Train in FP32", "check box")
            self._shoot(shown, "5-form")
            window.click("Compare 2 precisions", "push button")
            wait_for(lambda: self._finished(root) == 2, "the two runs did not finish", 300, every=1)
            self.marks["finished"] = time.monotonic() - self._began
            self._shoot(shown, "6-trained")

    def _compare_and_export(self, root: Root, shown: Desktop, window: Window) -> None:
        with self.steps.step("Compare shows both"):
            shown.press("ctrl+3")
            window.click("Compare the newest runs", "push button")
            # it can be pressed once runs are compared
            window.wait_for("Export report", "push button")
            self._shoot(shown, "7-compare")
        with self.steps.step("The runs are exported"):
            shown.press("ctrl+e")
            time.sleep(1)
            self._shoot(shown, "8-export")
            report = Path(f"/home/{USER}/report.html")
            shown.press("ctrl+a")
            shown.type(str(report))
            shown.press("Return")
            wait_for(root.at(report).exists, "the report was not written", 30)
            check("FP16" in root.at(report).read_text(encoding="utf-8"), "the report says nothing of FP16")

    def _upgrade(self, root: Root) -> None:
        with self.steps.step("An upgrade keeps the engine and the runs"):
            root.run("dpkg", "--force-unsafe-io", "--install", self._inside(root, self.higher))
            installed = root.run("dpkg-query", "--show", "--showformat", "${Version}", "ammeter")
            check(installed == _version(self.higher), f"the version after the upgrade is {installed}")
            check(self._finished(root) == 2, "the upgrade lost the runs")
            said = root.run("ammeter", "engine", "show", "--json", is_user=True)
            check(json.loads(said)["state"] == "ready", f"after the upgrade the engine is not ready: {said}")

    def _uninstall(self, root: Root) -> None:
        data = root.at(f"home/{USER}/.local/share/Ammeter")
        with self.steps.step("Uninstalling leaves the user's data, and says where it is"):
            said = root.run("dpkg", "--remove", "ammeter")
            check(".local/share/Ammeter" in said, f"dpkg does not say where the data is:\n{said}")
            check((data / "ammeter.sqlite").exists(), "the runs are gone")
            check((data / "engine" / "current.json").exists(), "the engine is gone")
            check(not root.at(INSTALLED).exists(), f"/{INSTALLED} was left behind")

    def _finished(self, root: Root) -> int:
        runs = json.loads(root.run("ammeter", "results", "--json", is_user=True))["runs"]
        return sum(run["status"] == "finished" for run in runs)

    def _inside(self, root: Root, package: Path) -> Path:
        place = root.at("tmp") / package.name
        place.write_bytes(package.read_bytes())
        return Path("/tmp") / package.name

    def _shoot(self, shown: Desktop, name: str) -> None:
        # the last clicks are painted by then
        time.sleep(0.5)
        shown.screenshot(self.shots / f"{name}.png")


def _version(package: Path) -> str:
    return output_of(["dpkg-deb", "--field", package, "Version"]).strip()


def _processes_of(root: Root) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                program = str((entry / "exe").readlink())
            except OSError:
                continue
            if str(INSTALLED) in program:
                found.append(int(entry.name))
    return found

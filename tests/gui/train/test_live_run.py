"""A run as its events come in, and the figures that are read off it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Heartbeat, Phase, PhaseName, Summary
from gui.train import figures
from gui.train.panel import LiveRun


class TestLiveRun:
    def test_batches_are_appended_and_the_last_step_is_known(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 3000), live.samples(3001, 10))
        assert run.step == 3010 and run.total_steps == 200
        np.testing.assert_array_equal(run.column("step"), np.arange(1, 3011))
        assert len(run.column("grad_scale")) == 0
        assert run.status == "running" and not run.is_over

    def test_it_is_named_for_its_precision_unless_it_has_a_label(self, live: Any) -> None:
        assert live.run("bf16").label == "BF16 AMP"
        assert LiveRun.of("a", Experiment(), "Run 3").label == "Run 3"

    def test_it_ends_as_the_last_event_says(self, live: Any) -> None:
        assert live.run("fp32", live.started(), Finished(summary=Summary())).status == "finished"
        assert live.run("fp32", live.started(), Finished(summary=Summary(), stopped=True)).status == "stopped"
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
        failed = live.run("fp32", live.started(), Failed(problem=problem))
        assert failed.status == "failed" and failed.problem == problem and failed.is_over

    def test_a_heartbeat_changes_nothing(self, live: Any) -> None:
        run = live.run("fp32", live.started())
        before = run.revision
        run.take(Heartbeat(step=3))
        assert run.revision == before

    def test_a_phase_before_the_start_is_of_a_run_that_runs(self, live: Any) -> None:
        run = live.run("fp32", Phase(name=PhaseName.BUILDING, detail="resnet50"))
        assert run.status == "running"

    def test_a_resumed_run_forgets_what_it_trains_again(self, live: Any) -> None:
        run = live.pair()[1]
        run.take(Finished(summary=Summary(steps=126), stopped=True))
        run.set_status("queued")
        again = live.started("fp16").model_copy(update={"resumed_step": 20})
        run.take_all([again, live.samples(21, 5, 1663.0, 3_174.0, grad_scale=(8_192.0,) * 5)])
        np.testing.assert_array_equal(run.column("step"), np.arange(1, 26))
        assert list(run.skipped.values) == [4, 12]
        assert run.epochs == [] and run.summary is None and run.status == "running"

    def test_a_step_counts_all_that_it_accumulates(self, live: Any) -> None:
        run = live.run("fp32", live.started(step={"gradient_accumulation": 4}), live.samples(1, 40, 512.0))
        assert run.batch_size == 256
        assert figures.step_ms(run) == pytest.approx(500.0)

    def test_without_pictures_the_unit_is_samples(self, live: Any) -> None:
        run = live.run("fp32", live.started(model="linear", dataset="synthetic-regression"))
        assert run.unit == "samples/s"


class TestFigures:
    def test_speed_leaves_the_warm_up_out(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 10, 10.0), live.samples(11, 40, 500.0))
        assert figures.samples_per_second(run) == pytest.approx(500.0)
        assert figures.step_ms(run) == pytest.approx(128.0)

    def test_speed_of_a_block_is_all_its_samples_over_all_its_time(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 10))
        run.load({"samples_per_second": [100.0, 300.0] * 5})
        assert figures.samples_per_second(run) == pytest.approx(150.0)

    def test_the_summary_holds_once_it_is_there(self, live: Any) -> None:
        run = live.pair()[0]
        assert figures.samples_per_second(run) == 880.0
        assert figures.peak_memory_mib(run) == 10_400.0
        assert figures.accuracy(run) == 0.613
        assert figures.grad_scale(run) is None and figures.skipped_steps(run) is None

    def test_what_is_not_known_yet_is_none(self, live: Any) -> None:
        run = live.run("fp32", live.started())
        for figure in (
            figures.samples_per_second,
            figures.step_ms,
            figures.peak_memory_mib,
            figures.accuracy,
            figures.train_loss,
            figures.grad_scale,
            figures.skipped_steps,
            LiveRun.seconds_left,
        ):
            assert figure(run) is None

    def test_on_a_cpu_memory_is_the_resident_one(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 20, resident_mib=tuple(range(100, 120))))
        assert figures.is_on_cpu(run)
        assert figures.peak_memory_mib(run) == 119.0

    def test_the_memory_of_the_warm_up_is_no_peak(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 10, resident_mib=(80.2,) * 10))
        assert figures.peak_memory_mib(run) is None
        run.take(live.samples(11, 10, resident_mib=(74.4,) * 10))
        assert figures.peak_memory_mib(run) == 74.4

    def test_the_time_left_follows_the_pace(self, live: Any) -> None:
        run = live.run("fp32", live.started(), live.samples(1, 100, 640.0))
        assert run.seconds_left() == pytest.approx(10.0)

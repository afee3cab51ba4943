"""A profile of a CUDA graph that was captured before the profiler started.

CUPTI hung or crashed there (https://github.com/pytorch/pytorch/issues/75504), reportedly until CUDA 12.6.
"""

from __future__ import annotations

import time

from day.work import Work
from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Failed, Profiled
from engine.protocol.profile import Limits, Peak
from engine.worker.launcher import iterate

_LIMITS = Limits(peaks=(Peak(format="fp32", tflops=20.0),), gb_per_second=1_000)
"""Measuring them would take longer than the recording."""
_GRAPH_SECONDS = 120.0


def graph(work: Work) -> None:
    """Profile a captured step in a worker of its own, and count the kernels recorded."""
    work.report("graph", *_kernels_of_a_graph(work))


def _kernels_of_a_graph(work: Work) -> tuple[int, str]:
    """Return the number of kernels recorded, and the reason if there are none."""
    asked = {
        "model": work.small("resnet18", "small-cnn"),
        "dataset": "synthetic",
        "image_size": 32,
        "batch_size": work.small(128, 4),
        "precision": work.half,
        "device": work.device,
        "steps": 40,
        "step": {"recipe": "fused+capture"},
    }
    job = jobs.Profile(experiment=Experiment.model_validate(asked), limits=_LIMITS)
    until = time.monotonic() + _GRAPH_SECONDS
    with work.launcher() as launcher:
        session = launcher.start(job)
        try:
            for event in iterate(session):
                match event:
                    case Failed(problem=problem):
                        return 0, problem.message
                    case Profiled(profile=profile):
                        is_graph = any("one graph" in note for note in profile.notes)
                        if not is_graph and not work.is_rehearsal:
                            return 0, f"nothing was captured: {profile.notes}"
                        return len(profile.kernels), f"in {profile.recorded_ms:,.2f} ms a step"
                if time.monotonic() > until:
                    return 0, f"it hung for {_GRAPH_SECONDS:.0f} s"
        finally:
            session.close()
    return 0, "nothing was told"

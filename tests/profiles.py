"""Profiles as a worker would send them: a GPU's FP32 and FP16 sides, and a CPU's."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Experiment
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import (
    Bar,
    BusRate,
    Communication,
    Limits,
    Peak,
    Profiles,
    ProfileSide,
    RankProfile,
    StepPart,
    StepProfile,
    TimeRow,
)
from engine.protocol.summary import Energy

_LIMITS = Limits(
    peaks=(
        Peak(format="fp32", tflops=51.2),
        Peak(format="tf32", tflops=378.0),
        Peak(format="fp16", tflops=711.0),
        Peak(format="bf16", tflops=704.0),
    ),
    gb_per_second=2_930.0,
    seconds=2.4,
)


def _profile(name: str, units: StepPart, matrix_ms: float, memory_ms: float) -> StepProfile:
    bar = Bar.of(
        (
            (units, matrix_ms),
            (StepPart.MEMORY, memory_ms),
            (StepPart.COPIES, 0.4),
            (StepPart.OPTIMIZER, 2.1),
            (StepPart.HOST, 1.2),
            (StepPart.DATA, 0.3),
        )
    )
    on_units = 1.0 if units is StepPart.MATRIX_UNITS else 0.0
    gemm = TimeRow(
        name=f"sm90_xmma_fprop_implicit_gemm_{name}_tilesize128x128x64_warpgroupsize1x1x1_cudnn",
        part=units,
        ms=0.6 * matrix_ms,
        calls=53,
        matrix_unit_fraction=on_units,
        format=name,
        flops=9.6e11,
        moved_bytes=4.1e9,
        operation="aten::cudnn_convolution",
    )
    norm = TimeRow(
        name="void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
        part=StepPart.MEMORY,
        ms=0.5 * memory_ms,
        calls=53,
        moved_bytes=5.2e9,
        operation="aten::cudnn_batch_norm",
    )
    return StepProfile(
        device_type="cuda",
        steps=5,
        samples=64,
        step_ms=bar.total_ms,
        recorded_ms=1.08 * bar.total_ms,
        bar=bar,
        format=name,
        validation=Bar.of(((units, matrix_ms / 3), (StepPart.MEMORY, memory_ms / 3))),
        matrix_units="Tensor Cores",
        kernels=(gemm, norm),
        operations=(
            gemm.model_copy(update={"name": "aten::cudnn_convolution", "operation": None}),
            norm.model_copy(update={"name": "aten::cudnn_batch_norm", "operation": None}),
        ),
        modules=tuple(
            gemm.model_copy(
                update={
                    "name": f"layer{place}.0.conv2",
                    "ms": 0.1 * matrix_ms,
                    "backward_ms": 0.07 * matrix_ms,
                    "operation": None,
                }
            )
            for place in range(1, 5)
        ),
        flops=1.57e12,
        limits=_LIMITS,
        energy=Energy(
            source="nvml",
            joules=12.0 * bar.total_ms,
            seconds=bar.total_ms / 50,
            steps=20,
            samples=1_280,
            idle_watts=70.0,
        ),
        advice=(
            Advice(
                kind=AdviceKind.ODD_SIZE,
                message="fc is 1,001 wide, which Tensor Cores do not divide: make it 1,008.",
                evidence="Its products ran on ordinary units for 1.2 ms of a step.",
                modules=("fc",),
            ),
        ),
        notes=("For a captured step, only the names of its kernels are known.",),
    )


@pytest.fixture
def fp32_profile() -> StepProfile:
    """A ResNet-50 without Tensor Cores."""
    return _profile("fp32", StepPart.MATRIX, 58.0, 21.0)


@pytest.fixture
def fp16_profile() -> StepProfile:
    """The same on Tensor Cores: the matrix work has shrunk."""
    return _profile("fp16", StepPart.MATRIX_UNITS, 12.0, 12.5)


def exchange(*waits_ms: float, host_ms: float = 1.0) -> Communication:
    """Ranks with a step of 50 ms of which they wait so long for others, and those that wait for none are
    longer between operations; 2 messages a step."""
    ranks = []
    for place, wait_ms in enumerate(waits_ms):
        own_ms = host_ms + (max(waits_ms) - wait_ms)
        bar = Bar.of(
            (
                (StepPart.MATRIX, 44 - own_ms - wait_ms),
                (StepPart.HOST, own_ms),
                (StepPart.COMMUNICATION, 6 + wait_ms),
            )
        )
        ranks.append(
            RankProfile(device=f"cuda:{place}", step_ms=50, bar=bar, overlapped_ms=3, skew_ms=wait_ms)
        )
    rates = tuple(BusRate(size=size, gb_per_second=rate) for size, rate in ((2**20, 4.0), (2**26, 16.0)))
    return Communication(ranks=tuple(ranks), messages=(2**20, 2**20), rates=rates)


def exchanging(found: Communication, **more: Any) -> StepProfile:
    """The profile of a step in which devices exchanged what was found."""
    return StepProfile(
        device_type="cuda",
        steps=5,
        samples=64,
        step_ms=50,
        recorded_ms=52,
        bar=found.ranks[0].bar,
        format="fp32",
        exchange=found,
        **more,
    )


@pytest.fixture
def profiles(fp32_profile: StepProfile, fp16_profile: StepProfile) -> Profiles:
    """Both sides."""
    settings = {"model": "resnet50", "dataset": "synthetic", "batch_size": 64}
    return Profiles(
        sides=(
            ProfileSide(
                experiment=Experiment.model_validate({**settings, "precision": "fp32"}), profile=fp32_profile
            ),
            ProfileSide(
                experiment=Experiment.model_validate({**settings, "precision": "fp16"}), profile=fp16_profile
            ),
        )
    )

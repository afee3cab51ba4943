"""Advice patterns: each with a recording that gives cause for it, and silent for one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import with_code
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import Bar, Limits, Peak, StepPart, StepProfile, TimeRow
from engine.training.profile import recording
from engine.training.profile.patterns import advise_on_time
from engine.training.profile.trace import Trace
from tests.engine.training.profile.recorded import Recorded

PEAKS = {"fp32": 19.0, "tf32": 120.0, "fp16": 240.0}
SGEMM = "ampere_sgemm_128x64_nn"
TENSOR_CORES = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nt"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"


def profile(name: str = "fp32", *, peaks: dict[str, float] = PEAKS, **parts_ms: float) -> StepProfile:
    """A card's step of 10 ms with products in a format; `parts_ms` by the names of the parts."""
    bar = Bar.of((StepPart[part.upper()], ms) for part, ms in parts_ms.items())
    rest = Bar.of([*((entry.part, entry.ms) for entry in bar.parts), (StepPart.OTHER, 10 - bar.total_ms)])
    limits = Limits(
        peaks=tuple(Peak(format=known, tflops=peak) for known, peak in peaks.items()), gb_per_second=2e3
    )
    return StepProfile(
        device_type="cuda",
        steps=1,
        samples=32,
        step_ms=10,
        recorded_ms=11,
        bar=rest,
        format=name,
        limits=limits,
        matrix_units="Tensor Cores",
    )


def of_cpu(
    threads: int = 2, kernels: tuple[TimeRow, ...] = (), cores: int = 2, **parts_ms: float
) -> StepProfile:
    changes = {
        "device_type": "cpu",
        "threads": threads,
        "cores": cores,
        "matrix_units": None,
        "kernels": kernels,
        "limits": None,
    }
    return profile(**parts_ms).model_copy(update=changes)


def a_step() -> Recorded:
    """A step of 10 ms in which a little is computed."""
    recorded = Recorded()
    recorded.step(0, 10_000)
    recorded.mark(recording.MODULE + "head", 100, 900)
    recorded.operation("aten::relu", 100, 110)
    recorded.kernel(ELEMENTWISE, 200, 250, launched=105)
    return recorded


@pytest.fixture
def recorded() -> Recorded:
    return a_step()


def product(recorded: Recorded, kernel: str, inputs: list[tuple[list[int], str]], us: float = 2_000) -> None:
    """Adds a product of these inputs, within the module "head"."""
    recorded.operation("aten::addmm", 200, 220, inputs=inputs)
    recorded.kernel(kernel, 300, 300 + us, launched=210)


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """The advice of a kind on a recording, if there is any."""

    def of_kind(
        kind: AdviceKind, recorded: Recorded | Trace, profile: StepProfile, **settings: Any
    ) -> Advice | None:
        trace = recorded.read(tmp_path) if isinstance(recorded, Recorded) else recorded
        experiment = Experiment.model_validate({"precision": "fp32", "device": "cuda:0", **settings})
        found = [entry for entry in advise_on_time(trace, profile, experiment) if entry.kind is kind]
        assert len(found) <= 1
        return found[0] if found else None

    return of_kind


FLOATS = [([32, 64], "float"), ([64, 128], "float")]
HALVES = [([1_001], "c10::Half"), ([32, 64], "c10::Half"), ([64, 1_001], "c10::Half")]


def test_products_in_fp32_could_be_tf32(recorded, told):
    product(recorded, SGEMM, FLOATS)
    advice = told(AdviceKind.COULD_BE_TF32, recorded, profile())
    assert "2.00 ms of a 10.0 ms step (20%)" in advice.evidence
    assert advice.modules == ("head",)
    assert advice.changes == (("precision", "tf32"),)
    within_amp = told(AdviceKind.COULD_BE_TF32, recorded, profile("fp16"), precision="fp16")
    assert within_amp.changes == (("step.autocast_tf32", "true"),)


def test_nothing_could_be_tf32_on_a_card_without_it_nor_in_tf32(recorded, told):
    product(recorded, SGEMM, FLOATS)
    assert told(AdviceKind.COULD_BE_TF32, recorded, profile(peaks={"fp32": 14.0, "fp16": 112.0})) is None
    assert told(AdviceKind.COULD_BE_TF32, recorded, profile("tf32"), precision="tf32") is None
    by_vector = a_step()
    product(by_vector, "void gemv2T_kernel_val<int, int, float, float>", FLOATS)
    assert told(AdviceKind.COULD_BE_TF32, by_vector, profile()) is None


@pytest.mark.parametrize(
    "kernel", ["gemmSN_NN_kernel<__half, 128>", "cutlass_75_tensorop_f16_s1688gemm_f16_64x64_nt_align1"]
)
def test_odd_sizes_miss_tensor_cores(recorded, told, kernel):
    product(recorded, kernel, HALVES)
    advice = told(AdviceKind.ODD_SIZE, recorded, profile("fp16"), precision="fp16")
    assert "Use 1,008 instead of 1,001" in advice.message
    assert advice.modules == ("head",)


def test_sizes_are_those_of_the_product_itself(recorded, told):
    tokens = [([32, 197, 64], "c10::Half"), ([1_001, 64], "c10::Half")]
    recorded.operation("aten::linear", 190, 230, inputs=tokens)
    product(
        recorded, "gemmSN_NN_kernel<__half, 128>", [([6_304, 64], "c10::Half"), ([64, 1_001], "c10::Half")]
    )
    advice = told(AdviceKind.ODD_SIZE, recorded, profile("fp16"), precision="fp16")
    assert "Use 1,008 instead of 1,001" in advice.message, "and not of 197, which is no size of it"


def test_sizes_that_run_on_tensor_cores_at_full_speed_are_no_reason(recorded, told):
    product(recorded, TENSOR_CORES, HALVES)
    assert told(AdviceKind.ODD_SIZE, recorded, profile("fp16"), precision="fp16") is None


def test_pageable_copies_are_told_with_their_caller_and_their_rate(recorded, told):
    recorded.operation("aten::to", 1_000, 3_000)
    recorded.operation("aten::copy_", 1_100, 2_900)
    recorded.copy("Memcpy HtoD (Pageable -> Device)", 1_300, 2_800, launched=1_200, count=6_000_000)
    advice = told(AdviceKind.PAGEABLE_COPY, recorded, profile(copies=1.5), data={"pin_memory": False})
    assert "They take 1.50 ms of a 10.0 ms step" in advice.evidence
    assert "in 1 transfer, at 4.00 GB/s, called by aten::to." in advice.evidence
    assert advice.changes == (("data.pin_memory", "true"),)
    assert told(AdviceKind.PAGEABLE_COPY, recorded, profile(copies=1.5)).changes == ()


def test_pinned_copies_are_no_reason(recorded, told):
    recorded.copy("Memcpy HtoD (Pinned -> Device)", 1_300, 2_800, launched=1_200, count=6_000_000)
    assert told(AdviceKind.PAGEABLE_COPY, recorded, profile(copies=1.5)) is None


def test_who_waits_for_the_device_is_told(recorded, told):
    recorded.operation("aten::item", 300, 800)
    recorded.operation("aten::_local_scalar_dense", 310, 790)
    recorded.runtime("cudaStreamSynchronize", 400, 780)
    advice = told(AdviceKind.SYNCHRONIZATION, recorded, profile(host=2))
    assert "in head" in advice.message
    assert "in 1 wait, called by aten::item." in advice.evidence
    assert advice.changes == ()
    assert told(AdviceKind.SYNCHRONIZATION, recorded, profile(host=0.05)) is None, "it delays nothing"


def test_the_loss_scalers_own_wait_is_named_as_such(recorded, told):
    recorded.mark(recording.OPTIMIZER, 8_000, 9_500)
    recorded.operation("aten::item", 8_100, 9_000)
    recorded.runtime("cudaStreamSynchronize", 8_200, 8_900)
    advice = told(AdviceKind.SYNCHRONIZATION, recorded, profile("fp16", host=2), precision="fp16")
    assert advice.message.startswith("GradScaler.step synchronizes")
    assert advice.changes == (("optimizer.fused", "true"),)


def test_the_wait_of_a_pageable_copy_is_not_told_twice(recorded, told):
    recorded.operation("aten::copy_", 1_100, 2_900)
    recorded.copy("Memcpy HtoD (Pageable -> Device)", 1_300, 2_800, launched=1_200, count=6_000_000)
    recorded.runtime("cudaStreamSynchronize", 1_210, 2_890)
    assert told(AdviceKind.SYNCHRONIZATION, recorded, profile(host=2, copies=1.5)) is None


def test_a_loader_that_starves_the_device_gets_more_workers(told):
    advice = told(AdviceKind.STARVED, a_step(), profile(data=4), data={"workers": 2})
    assert "4.00 ms of a 10.0 ms step" in advice.evidence and "2 loader workers" in advice.evidence
    assert advice.changes == (("data.workers", "4"),)
    most = told(AdviceKind.STARVED, a_step(), profile(data=4), data={"workers": 32})
    assert most.changes == (("data.on_device", "true"),)
    assert told(AdviceKind.STARVED, a_step(), profile(data=0.05)) is None


def test_more_workers_are_worth_what_they_and_the_cores_can_load(told):
    starved = profile(data=9).model_copy(update={"cores": 8})
    advice = told(AdviceKind.STARVED, a_step(), starved)
    assert advice.evidence.endswith("with 0 loader workers. With 4, a step takes 2.25 ms at best.")
    of_two = told(AdviceKind.STARVED, a_step(), starved.model_copy(update={"cores": 2}))
    assert of_two.evidence.endswith("With 2, a step takes 4.50 ms at best.")
    # two workers that do not keep up take all of two cores
    none_left = starved.model_copy(update={"cores": 2})
    on_device = told(AdviceKind.STARVED, a_step(), none_left, data={"workers": 2})
    assert on_device.changes == (("data.on_device", "true"),)
    # a processor that trains on both cores has none to load with
    busy = of_cpu(threads=2, cores=2, data=4)
    assert told(AdviceKind.STARVED, Trace(), busy, device="cpu").evidence.endswith("takes 8.00 ms at best.")


def test_what_was_recorded_takes_no_more_than_the_step(recorded, told):
    recorded.copy("Memcpy HtoD (Pageable -> Device)", 1_300, 42_800, launched=1_200, count=6_000_000)
    advice = told(AdviceKind.PAGEABLE_COPY, recorded, profile(copies=5))
    assert "10.0 ms of a 10.0 ms step (100%)" in advice.evidence


def test_tiny_kernels_are_launched_at_once(recorded, told):
    for at in range(1_000, 2_000, 100):
        recorded.operation("aten::mul", at, at + 20)
        recorded.kernel(ELEMENTWISE, at + 30, at + 32, launched=at + 10)
    advice = told(AdviceKind.TINY_KERNELS, recorded, profile(host=6))
    assert "91% of a step's 11 kernels take less than 5 µs, called by aten::mul" in advice.evidence
    assert advice.changes == (("step.recipe", "fast"),)
    captured = told(
        AdviceKind.TINY_KERNELS, recorded, profile(host=6), step={"recipe": "capture"}, batch_size=32
    )
    assert captured.changes == (("batch_size", "64"),)


def test_tiny_kernels_for_which_the_device_does_not_wait_are_no_reason(recorded, told):
    recorded.kernel(ELEMENTWISE, 1_030, 1_032, launched=1_010)
    assert told(AdviceKind.TINY_KERNELS, recorded, profile(host=0.1)) is None


def optimizer_step(name: str) -> Recorded:
    recorded = a_step()
    recorded.mark(recording.OPTIMIZER, 7_000, 9_000)
    recorded.operation(name, 7_100, 8_900)
    for at in range(7_200, 8_200, 100):
        recorded.kernel(f"multi_tensor_apply_kernel<{name}>", at + 30, at + 80, launched=at)
    return recorded


def model_file(folder: Path) -> Path:
    path = folder / "net.py"
    path.write_text("def model(): ...\ndef optimizer(model): ...\n")
    return path


def test_an_unfused_optimizer_is_told_by_its_kernels(told, tmp_path):
    recorded = optimizer_step("aten::_foreach_addcdiv_")
    advice = told(AdviceKind.UNFUSED_OPTIMIZER, recorded, profile(optimizer=2))
    assert "in 10 kernels." in advice.evidence
    assert advice.changes == (("optimizer.fused", "true"),)
    assert (
        told(AdviceKind.UNFUSED_OPTIMIZER, recorded, profile(optimizer=2), step={"recipe": "fused"}) is None
    )
    own = with_code({"model": str(model_file(tmp_path))}, names_model=True, names_dataset=True)
    (entry,) = advise_on_time(recorded.read(tmp_path), profile(optimizer=2), Experiment.model_validate(own))
    assert entry.changes == (), "no setting fuses the model file's own"
    fused = optimizer_step("aten::_fused_adamw_")
    assert told(AdviceKind.UNFUSED_OPTIMIZER, fused, profile(optimizer=2)) is None


def test_gradients_filled_with_zeros_are_told(recorded, told):
    for at in (1_000, 1_200):
        recorded.operation("aten::zero_", at, at + 100)
        recorded.operation("aten::fill_", at + 10, at + 90)
        recorded.kernel(ELEMENTWISE, at + 50, at + 250, launched=at + 20)
    advice = told(AdviceKind.ZEROED_GRADIENTS, recorded, profile())
    assert "in 2 fills." in advice.evidence
    assert advice.evidence.startswith("That takes 0.400 ms")
    assert told(AdviceKind.ZEROED_GRADIENTS, a_step(), profile()) is None


def test_conversions_to_channels_last_and_back_are_told(recorded, told):
    recorded.operation("aten::cudnn_convolution", 200, 260)
    recorded.kernel("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>", 300, 900, launched=210)
    recorded.kernel("void cudnn::ops::nhwcToNchwKernel<__half, __half, float>", 900, 1_300, launched=230)
    advice = told(AdviceKind.LAYOUT, recorded, profile("fp16", memory=1), step={"recipe": "fused"})
    assert "take 1.00 ms" in advice.evidence
    assert advice.changes == (("step.recipe", "channels_last+fused"),)
    kept = told(AdviceKind.LAYOUT, recorded, profile("fp16", memory=1), step={"recipe": "channels_last"})
    assert (
        kept.message.startswith("Images leave channels_last and return to it in head.") and kept.changes == ()
    )
    assert told(AdviceKind.LAYOUT, a_step(), profile()) is None


def test_onednns_reorders_around_convolutions_are_conversions_too(told):
    reorder = TimeRow(name="reorder jit:uni", part=StepPart.MEMORY, ms=1, calls=9)
    convolution = TimeRow(name="convolution jit:avx2", part=StepPart.MATRIX, ms=6, calls=9)
    rows = (convolution, reorder)
    advice = told(AdviceKind.LAYOUT, Trace(), of_cpu(kernels=rows), device="cpu")
    assert advice.changes == (("step.recipe", "channels_last"),)
    assert "Compare both" in advice.message, "on a CPU some models are slower then"
    assert told(AdviceKind.LAYOUT, Trace(), of_cpu(kernels=rows[1:]), device="cpu") is None
    kept: dict[str, Any] = {"device": "cpu", "step": {"recipe": "channels_last"}}
    assert told(AdviceKind.LAYOUT, Trace(), of_cpu(kernels=rows), **kept) is None


def test_idle_cores_are_told(told):
    advice = told(AdviceKind.IDLE_THREADS, Trace(), of_cpu(threads=1, cores=4, matrix=8), device="cpu")
    assert "1 of 4 cores" in advice.message and "8.00 ms of a 10.0 ms step" in advice.evidence
    assert told(AdviceKind.IDLE_THREADS, Trace(), of_cpu(threads=4, cores=4, matrix=8), device="cpu") is None
    assert told(AdviceKind.IDLE_THREADS, a_step(), profile(matrix=8)) is None, "no CPU computes"


def test_what_could_save_most_comes_first(recorded, tmp_path):
    product(recorded, SGEMM, FLOATS)
    trace = recorded.read(tmp_path)
    kinds = [entry.kind for entry in advise_on_time(trace, profile(data=5), Experiment(precision="fp32"))]
    assert kinds == [AdviceKind.STARVED, AdviceKind.COULD_BE_TF32]


def test_an_empty_recording_gives_no_advice():
    nothing = profile().model_copy(update={"step_ms": 0.0, "bar": Bar()})
    assert advise_on_time(Trace(), nothing, Experiment()) == ()


@pytest.mark.parametrize("recipe", ["plain", "compile"])
def test_scaling_and_casting_to_fp8_is_told_with_its_share_of_the_step(recorded, told, recipe):
    if recipe == "plain":
        recorded.operation("matmul_with_hp_or_float8_argsBackward", 1_000, 1_100)
        recorded.operation("aten::mul", 1_010, 1_020)
        recorded.kernel(ELEMENTWISE, 1_200, 3_200, launched=1_012)
    else:
        recorded.kernel("triton_red_fused_abs_max_0", 1_200, 2_200)
        recorded.kernel("triton_poi_fused__to_copy_clamp_mul_t_1", 2_200, 3_200)
    product(recorded, "nvjet_sm90_qqtst_128x256_128x4_2x1_v_bz_coopB_TNT", HALVES)
    asked = {"precision": "fp8", "step": {"recipe": recipe}}
    advice = told(AdviceKind.CASTS, recorded, profile("fp8", memory=2.0), **asked)
    assert advice.evidence.startswith("They take 2.00 ms of a 10.0 ms step (20%)")
    assert advice.changes == ((("step.recipe", "fast"),) if recipe == "plain" else ())
    assert told(AdviceKind.CASTS, recorded, profile("bf16", memory=2.0), precision="bf16") is None

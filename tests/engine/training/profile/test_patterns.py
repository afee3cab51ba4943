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


def starved(cores: int) -> StepProfile:
    return profile(data=9).model_copy(update={"cores": cores})


def of_cpu(
    threads: int = 2, kernels: tuple[TimeRow, ...] = (), cores: int = 2, **parts_ms: float
) -> StepProfile:
    changes = {"device_type": "cpu", "threads": threads, "cores": cores, "matrix_units": None}
    return profile(**parts_ms).model_copy(update={**changes, "kernels": kernels, "limits": None})


def a_step() -> Recorded:
    """A step of 10 ms in which a little is computed."""
    recorded = Recorded()
    recorded.step(0, 10_000)
    recorded.mark(recording.MODULE + "head", 100, 900)
    recorded.operation("aten::relu", 100, 110)
    recorded.kernel(ELEMENTWISE, 200, 250, launched=105)
    return recorded


Inputs = list[tuple[list[int], str]]
FLOATS: Inputs = [([32, 64], "float"), ([64, 128], "float")]
HALVES: Inputs = [([1_001], "c10::Half"), ([32, 64], "c10::Half"), ([64, 1_001], "c10::Half")]
TOKENS: Inputs = [([6_304, 64], "c10::Half"), ([64, 1_001], "c10::Half")]
SMALL_TILES = "gemmSN_NN_kernel<__half, 128>"


def product(kernel: str, inputs: Inputs, us: float = 2_000, recorded: Recorded | None = None) -> Recorded:
    """A step with a product of these inputs, within the module "head"."""
    step = recorded or a_step()
    step.operation("aten::addmm", 200, 220, inputs=inputs)
    step.kernel(kernel, 300, 300 + us, launched=210)
    return step


def of_tokens() -> Recorded:
    """A product within a linear layer of 197 tokens, which are no size of it."""
    step = a_step()
    step.operation(
        "aten::linear", 190, 230, inputs=[([32, 197, 64], "c10::Half"), ([1_001, 64], "c10::Half")]
    )
    return product(SMALL_TILES, TOKENS, recorded=step)


def copied(kind: str, end: float = 2_800, *, waits: bool = False) -> Recorded:
    step = a_step()
    step.operation("aten::to", 1_000, 3_000)
    step.operation("aten::copy_", 1_100, 2_900)
    step.copy(f"Memcpy HtoD ({kind} -> Device)", 1_300, end, launched=1_200, count=6_000_000)
    if waits:
        step.runtime("cudaStreamSynchronize", 1_210, 2_890)
    return step


def waiting(at: float, *, by_optimizer: bool = False) -> Recorded:
    step = a_step()
    if by_optimizer:
        step.mark(recording.OPTIMIZER, at - 300, at + 1_200)
    step.operation("aten::item", at, at + 500)
    step.operation("aten::_local_scalar_dense", at + 10, at + 490)
    step.runtime("cudaStreamSynchronize", at + 100, at + 480)
    return step


def tiny_kernels(number: int) -> Recorded:
    step = a_step()
    for at in range(1_000, 1_000 + 100 * number, 100):
        step.operation("aten::mul", at, at + 20)
        step.kernel(ELEMENTWISE, at + 30, at + 32, launched=at + 10)
    return step


def updated(name: str) -> Recorded:
    step = a_step()
    step.mark(recording.OPTIMIZER, 7_000, 9_000)
    step.operation(name, 7_100, 8_900)
    for at in range(7_200, 8_200, 100):
        step.kernel(f"multi_tensor_apply_kernel<{name}>", at + 30, at + 80, launched=at)
    return step


def zeroed() -> Recorded:
    step = a_step()
    for at in (1_000, 1_200):
        step.operation("aten::zero_", at, at + 100)
        step.operation("aten::fill_", at + 10, at + 90)
        step.kernel(ELEMENTWISE, at + 50, at + 250, launched=at + 20)
    return step


def rearranged() -> Recorded:
    step = a_step()
    step.operation("aten::cudnn_convolution", 200, 260)
    step.kernel("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>", 300, 900, launched=210)
    step.kernel("void cudnn::ops::nhwcToNchwKernel<__half, __half, float>", 900, 1_300, launched=230)
    return step


def scaled(*, compiled: bool) -> Recorded:
    """A step whose product in FP8 follows 2 ms of scaling and casting."""
    step = a_step()
    if compiled:
        step.kernel("triton_red_fused_abs_max_0", 1_200, 2_200)
        step.kernel("triton_poi_fused__to_copy_clamp_mul_t_1", 2_200, 3_200)
    else:
        step.operation("matmul_with_hp_or_float8_argsBackward", 1_000, 1_100)
        step.operation("aten::mul", 1_010, 1_020)
        step.kernel(ELEMENTWISE, 1_200, 3_200, launched=1_012)
    return product("nvjet_sm90_qqtst_128x256_128x4_2x1_v_bz_coopB_TNT", HALVES, recorded=step)


REORDER = TimeRow(name="reorder jit:uni", part=StepPart.MEMORY, ms=1, calls=9)
ONEDNN = (TimeRow(name="convolution jit:avx2", part=StepPart.MATRIX, ms=6, calls=9), REORDER)
FP16, CPU = {"precision": "fp16"}, {"device": "cpu"}
EMPTY = Trace()
TF32, ODD, COPY, WAIT = (
    AdviceKind.COULD_BE_TF32,
    AdviceKind.ODD_SIZE,
    AdviceKind.PAGEABLE_COPY,
    AdviceKind.SYNCHRONIZATION,
)
STARVED, TINY, UNFUSED, ZEROED, LAYOUT, IDLE, CASTS = (
    AdviceKind.STARVED,
    AdviceKind.TINY_KERNELS,
    AdviceKind.UNFUSED_OPTIMIZER,
    AdviceKind.ZEROED_GRADIENTS,
    AdviceKind.LAYOUT,
    AdviceKind.IDLE_THREADS,
    AdviceKind.CASTS,
)
NONE: dict[str, str] = {}


def channels_last(recipe: str) -> dict[str, Any]:
    return {"step": {"recipe": recipe}}


@pytest.mark.parametrize(
    ("kind", "recorded", "seen", "settings", "said", "changes"),
    [
        (TF32, product(SGEMM, FLOATS), profile(), {}, "2.00 ms of a 10.0 ms step", {"precision": "tf32"}),
        (TF32, product(SGEMM, FLOATS), profile("fp16"), FP16, "head", {"step.autocast_tf32": "true"}),
        (ODD, product(SMALL_TILES, HALVES), profile("fp16"), FP16, "Use 1,008 instead of 1,001", NONE),
        (ODD, product("cutlass_75_tensorop_f16_s1688gemm_f16_64x64_nt_align1", HALVES), profile("fp16"), FP16,
         "Use 1,008 instead of 1,001", NONE),
        (ODD, of_tokens(), profile("fp16"), FP16, "Use 1,008 instead of 1,001", NONE),
        (COPY, copied("Pageable"), profile(copies=1.5), {"data": {"pin_memory": False}},
         "in 1 transfer, at 4.00 GB/s, called by aten::to.", {"data.pin_memory": "true"}),
        (COPY, copied("Pageable"), profile(copies=1.5), {}, "They take 1.50 ms of a 10.0 ms step", NONE),
        # no more than the step
        (COPY, copied("Pageable", 42_800), profile(copies=5), {}, "10.0 ms of a 10.0 ms step (100%)", NONE),
        (WAIT, waiting(300), profile(host=2), {}, "in 1 wait, called by aten::item.", NONE),
        (WAIT, waiting(8_300, by_optimizer=True), profile("fp16", host=2), FP16,
         "GradScaler.step synchronizes", {"optimizer.fused": "true"}),
        (STARVED, a_step(), starved(8), {"data": {"workers": 2}}, "2 loader workers", {"data.workers": "4"}),
        (STARVED, a_step(), starved(64), {"data": {"workers": 32}}, "9.00 ms", {"data.on_device": "true"}),
        (STARVED, a_step(), starved(8), {},
         "with 0 loader workers. With 4, a step takes 2.25 ms at best.", {"data.workers": "4"}),
        (STARVED, a_step(), starved(2), {}, "With 2, a step takes 4.50 ms at best.", {"data.workers": "2"}),
        # two workers that do not keep up take all of two cores
        (STARVED, a_step(), starved(2), {"data": {"workers": 2}}, "", {"data.on_device": "true"}),
        # a processor that trains on both cores has none to load with
        (STARVED, EMPTY, of_cpu(data=4), CPU, "takes 8.00 ms at best.", {"data.workers": "2"}),
        (TINY, tiny_kernels(10), profile(host=6), {},
         "91% of a step's 11 kernels take less than 5 µs, called by aten::mul", {"step.recipe": "fast"}),
        (TINY, tiny_kernels(10), profile(host=6), {"step": {"recipe": "capture"}, "batch_size": 32}, "",
         {"batch_size": "64"}),
        (UNFUSED, updated("aten::_foreach_addcdiv_"), profile(optimizer=2), {}, "in 10 kernels.",
         {"optimizer.fused": "true"}),
        (ZEROED, zeroed(), profile(), {}, "That takes 0.400 ms", NONE),
        (LAYOUT, rearranged(), profile("fp16", memory=1), channels_last("fused"), "take 1.00 ms",
         {"step.recipe": "channels_last+fused"}),
        (LAYOUT, rearranged(), profile("fp16", memory=1), channels_last("channels_last"),
         "Images leave channels_last and return to it in head.", NONE),
        # on a CPU some models are slower then
        (LAYOUT, EMPTY, of_cpu(kernels=ONEDNN), CPU, "Compare both", {"step.recipe": "channels_last"}),
        (IDLE, EMPTY, of_cpu(threads=1, cores=4, matrix=8), CPU, "8.00 ms of a 10.0 ms step", NONE),
        (CASTS, scaled(compiled=False), profile("fp8", memory=2.0), {"precision": "fp8"},
         "They take 2.00 ms of a 10.0 ms step (20%)", {"step.recipe": "fast"}),
        (CASTS, scaled(compiled=True), profile("fp8", memory=2.0),
         {"precision": "fp8", "step": {"recipe": "compile"}}, "They take 2.00 ms", NONE),
    ],
)  # fmt: skip
def test_what_was_recorded_gives_its_advice_with_evidence(
    kind, recorded, seen, settings, said, changes, tmp_path
):
    (advice,) = advice_of(kind, recorded, seen, settings, tmp_path)
    assert said in f"{advice.message} {advice.evidence} {' '.join(advice.modules)}"
    assert dict(advice.changes) == changes


@pytest.mark.parametrize(
    ("kind", "recorded", "seen", "settings"),
    [
        # a card without TF32, a run in it already, and a product with a vector
        (TF32, product(SGEMM, FLOATS), profile(peaks={"fp32": 14.0, "fp16": 112.0}), {}),
        (TF32, product(SGEMM, FLOATS), profile("tf32"), {"precision": "tf32"}),
        (TF32, product("void gemv2T_kernel_val<int, int, float, float>", FLOATS), profile(), {}),
        (ODD, product(TENSOR_CORES, HALVES), profile("fp16"), FP16),
        (COPY, copied("Pinned"), profile(copies=1.5), {}),
        (WAIT, waiting(300), profile(host=0.05), {}),
        # told of the copy already
        (WAIT, copied("Pageable", waits=True), profile(host=2, copies=1.5), {}),
        (STARVED, a_step(), profile(data=0.05), {}),
        (TINY, tiny_kernels(1), profile(host=0.1), {}),
        (UNFUSED, updated("aten::_foreach_addcdiv_"), profile(optimizer=2), channels_last("fused")),
        (UNFUSED, updated("aten::_fused_adamw_"), profile(optimizer=2), {}),
        (ZEROED, a_step(), profile(), {}),
        (LAYOUT, a_step(), profile(), {}),
        (LAYOUT, EMPTY, of_cpu(kernels=(REORDER,)), CPU),
        (LAYOUT, EMPTY, of_cpu(kernels=ONEDNN), {**CPU, **channels_last("channels_last")}),
        (IDLE, EMPTY, of_cpu(threads=4, cores=4, matrix=8), CPU),
        (IDLE, a_step(), profile(matrix=8), {}),
        (CASTS, scaled(compiled=False), profile("bf16", memory=2.0), {"precision": "bf16"}),
        (STARVED, EMPTY, profile().model_copy(update={"step_ms": 0.0, "bar": Bar()}), {}),
    ],
)
def test_what_costs_nothing_or_cannot_change_gives_none(kind, recorded, seen, settings, tmp_path):
    assert advice_of(kind, recorded, seen, settings, tmp_path) == []


def advice_of(
    kind: AdviceKind, recorded: Recorded | Trace, seen: StepProfile, settings: dict[str, Any], folder: Path
) -> list[Advice]:
    trace = recorded.read(folder) if isinstance(recorded, Recorded) else recorded
    experiment = Experiment.model_validate({"precision": "fp32", "device": "cuda:0", **settings})
    return [entry for entry in advise_on_time(trace, seen, experiment) if entry.kind is kind]


def test_no_setting_fuses_the_optimizer_of_a_model_file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def model(): ...\ndef optimizer(model): ...\n")
    own = with_code({"model": str(path)}, names_model=True, names_dataset=True)
    (advice,) = advice_of(UNFUSED, updated("aten::_foreach_addcdiv_"), profile(optimizer=2), own, tmp_path)
    assert advice.changes == ()


def test_what_could_save_most_comes_first(tmp_path):
    trace = product(SGEMM, FLOATS).read(tmp_path)
    kinds = [entry.kind for entry in advise_on_time(trace, profile(data=5), Experiment(precision="fp32"))]
    assert kinds == [STARVED, TF32]

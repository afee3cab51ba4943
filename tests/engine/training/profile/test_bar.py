"""The bar: every moment of a step in exactly one part, fitted to the step without the profiler."""

from __future__ import annotations

import pytest

from engine.protocol.profile import StepPart
from engine.training.profile import recording
from engine.training.profile.breakdown import build_tables, step_bar
from tests.engine.training.profile.recorded import MAIN, Recorded

GEMM = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel"
SGEMM = "ampere_sgemm_128x64_tn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(int)"
H2D = "Memcpy HtoD (Pinned -> Device)"


def _step_on_a_gpu(recorded: Recorded, begin: float) -> None:
    """10 ms of a step, of which the device is busy for 6."""
    recorded.step(begin, begin + 10_000)
    recorded.mark(recording.DATA, begin, begin + 1000)
    recorded.mark(recording.OPTIMIZER, begin + 8000, begin + 9900)
    recorded.copy(H2D, begin + 1000, begin + 2500, launched=begin + 1000, count=1000)
    recorded.kernel(GEMM, begin + 2000, begin + 5000, launched=begin + 1500)
    recorded.kernel(RELU, begin + 4000, begin + 6000, launched=begin + 1600, stream=20)
    recorded.kernel(RELU, begin + 9000, begin + 10_000, launched=begin + 8500)


def test_overlaps_count_once_and_gaps_are_what_the_measured_step_leaves(recorded, tmp_path):
    _step_on_a_gpu(recorded, 0)
    _step_on_a_gpu(recorded, 10_000)
    found = step_bar(recorded.read(tmp_path), step_ms=8.0, data_wait_ms=0.5)
    assert found.recorded_ms == found.raw_ms == pytest.approx(10)
    assert found.scale == 1 and found.notes == () and found.disturbance is None
    assert {entry.part: entry.ms for entry in found.bar.parts} == pytest.approx(
        {
            StepPart.MATRIX_UNITS: 3,
            StepPart.MEMORY: 1,
            StepPart.COPIES: 1,
            StepPart.OPTIMIZER: 1,
            StepPart.HOST: 1.5,
            StepPart.DATA: 0.5,
        }
    )
    assert found.bar.total_ms == pytest.approx(8)


ABS_MAX, CAST = "triton_red_fused_abs_max_0", "triton_poi_fused__scaled_mm__to_copy_clamp_mul_reciprocal_t_2"
NVJET = "nvjet_sm90_qqtst_128x256_128x4_2x1_v_bz_coopB_TNT"
CLIP = "triton_poi_fused_clamp_mul_1"


def test_scaling_and_casting_to_fp8_are_a_part_of_their_own_where_products_are_in_fp8(recorded, tmp_path):
    recorded.step(0, 10_000)
    recorded.operation("matmul_with_hp_or_float8_args", 10, 60)
    recorded.operation("aten::abs", 20, 30)
    recorded.kernel(RELU, 100, 1_100, launched=25)  # eager, in a converted layer
    recorded.kernel(RELU, 1_100, 2_100, launched=80)
    recorded.kernel(ABS_MAX, 2_100, 3_100)
    recorded.kernel(CAST, 3_100, 4_100)
    recorded.mark(recording.OPTIMIZER, 4_000, 5_000)
    recorded.kernel(CLIP, 5_000, 5_500, launched=4_500)
    trace = recorded.read(tmp_path)
    bar = step_bar(trace, step_ms=10.0, data_wait_ms=0.0).bar
    assert bar.ms(StepPart.SCALING) == 0 and bar.ms(StepPart.MEMORY) == pytest.approx(4)
    recorded.kernel(NVJET, 6_000, 8_000)
    trace = recorded.read(tmp_path)
    found = step_bar(trace, step_ms=10.0, data_wait_ms=0.0)
    assert {part: found.bar.ms(part) for part in StepPart if found.bar.ms(part)} == pytest.approx(
        {
            StepPart.MATRIX_UNITS: 2,
            StepPart.MEMORY: 1,
            StepPart.SCALING: 3,
            StepPart.OPTIMIZER: 0.5,
            StepPart.HOST: 3.5,
        }
    )
    rows = {row.name: row.part for row in build_tables(trace, found).kernels}
    assert rows[ABS_MAX] is rows[CAST] is StepPart.SCALING and rows[CLIP] is StepPart.OPTIMIZER


def test_a_wait_for_data_is_the_devices_only_while_it_has_nothing_to_do(recorded, tmp_path):
    recorded.step(0, 2000)
    recorded.kernel(SGEMM, 0, 1000, launched=0)
    recorded.step(2000, 4000)
    recorded.mark(recording.DATA, 2000, 3000)
    recorded.kernel(SGEMM, 1000, 2750, launched=10)  # three quarters of the wait
    bar = step_bar(recorded.read(tmp_path), step_ms=2.0, data_wait_ms=0.4).bar
    assert bar.ms(StepPart.MATRIX) == pytest.approx(1.375)
    assert bar.ms(StepPart.DATA) == pytest.approx(0.1)
    assert bar.total_ms == pytest.approx(2)


def test_work_longer_than_the_measured_step_is_scaled_down_and_that_is_said(recorded, tmp_path):
    _step_on_a_gpu(recorded, 0)
    found = step_bar(recorded.read(tmp_path), step_ms=3.0, data_wait_ms=0.5)
    assert found.scale == pytest.approx(0.5)
    assert found.bar.total_ms == pytest.approx(3) and found.bar.ms(StepPart.HOST) == 0
    (note,) = found.notes
    assert note.replace("\N{NO-BREAK SPACE}", " ") == (
        "The recorded work adds up to 200% of a step without the profiler, and is scaled to it."
    )
    assert found.disturbance is not None and found.disturbance.startswith("the recorded work")


def test_a_captured_step_is_known_by_its_kernels_names(recorded, tmp_path):
    recorded.step(0, 100)
    recorded.runtime("cudaGraphLaunch", 10, 20, correlation=3)
    recorded.kernel(GEMM, 100, 1100, correlation=3)
    adam = (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()"
    )
    recorded.kernel(adam, 1100, 1400, correlation=3)
    bar = step_bar(recorded.read(tmp_path), step_ms=1.5, data_wait_ms=0.0).bar
    assert bar.ms(StepPart.MATRIX_UNITS) == pytest.approx(1)
    assert bar.ms(StepPart.OPTIMIZER) == pytest.approx(0.3)
    assert bar.ms(StepPart.HOST) == pytest.approx(0.2)


def test_validation_has_a_bar_of_its_own(recorded, tmp_path):
    _step_on_a_gpu(recorded, 0)
    recorded.mark(recording.VALIDATION, 20_000, 24_000)
    recorded.kernel(SGEMM, 21_000, 23_000, launched=20_500)
    found = step_bar(recorded.read(tmp_path), step_ms=8.0, data_wait_ms=0.0)
    assert found.validation is not None
    assert found.validation.ms(StepPart.MATRIX) == pytest.approx(2)
    # half of the step's recorded gaps were the profiler's
    assert found.validation.ms(StepPart.HOST) == pytest.approx(1)
    assert found.bar.total_ms == pytest.approx(8)


def _step_on_a_cpu(recorded: Recorded, begin: float) -> None:
    recorded.step(begin, begin + 1000)
    recorded.mark(recording.DATA, begin, begin + 100)
    recorded.operation("aten::stack", begin + 10, begin + 90)
    half = [([8, 4], "c10::BFloat16"), ([4, 2], "c10::BFloat16")]
    recorded.operation("aten::linear", begin + 100, begin + 400, inputs=half)
    recorded.operation("aten::addmm", begin + 110, begin + 390, inputs=half)
    recorded.operation("aten::relu", begin + 400, begin + 500, inputs=[([8, 2], "float")])
    recorded.mark(recording.OPTIMIZER, begin + 700, begin + 1000)
    recorded.operation("aten::_foreach_add_", begin + 750, begin + 950)
    recorded.operation("aten::relu", begin + 500, begin + 550, thread=MAIN + 1)  # no part of the step


def test_on_a_cpu_operations_have_their_own_times_and_the_host_the_rest(recorded, tmp_path):
    _step_on_a_cpu(recorded, 0)
    _step_on_a_cpu(recorded, 1000)
    found = step_bar(recorded.read(tmp_path), step_ms=0.95, data_wait_ms=0.05, units=("bf16",))
    assert (found.recorded_ms, found.raw_ms) == (pytest.approx(1), pytest.approx(0.95))
    assert (found.scale, found.call_us) == (pytest.approx(1), pytest.approx(0))
    assert {entry.part: entry.ms for entry in found.bar.parts} == pytest.approx(
        {
            StepPart.MATRIX_UNITS: 0.28,  # of addmm, and not of linear, which calls it
            StepPart.MEMORY: 0.1,
            StepPart.OPTIMIZER: 0.2,
            StepPart.HOST: 0.32,
            StepPart.DATA: 0.05,
        }
    )


def test_on_a_cpu_the_profilers_cost_is_taken_off_those_who_call(recorded, tmp_path):
    _step_on_a_cpu(recorded, 0)
    # 8 us less work for 4 operations
    found = step_bar(recorded.read(tmp_path), step_ms=0.992, data_wait_ms=0.1)
    assert found.call_us == pytest.approx(2) and found.scale == pytest.approx(1)
    assert found.bar.ms(StepPart.MATRIX) == pytest.approx(0.28)
    assert found.bar.ms(StepPart.HOST) == pytest.approx(0.32 - 4 * 0.002)
    slow = step_bar(recorded.read(tmp_path), step_ms=0.55, data_wait_ms=0.1)
    assert slow.call_us == 6 and slow.scale < 0.55
    assert slow.bar.total_ms == pytest.approx(0.55)
    assert len(slow.notes) == 1 and found.notes == ()


def test_on_a_cpu_a_modules_mark_costs_the_host_as_much_as_ten_operations(recorded, tmp_path):
    _step_on_a_cpu(recorded, 0)
    recorded.mark(recording.MODULE + "fc", 100, 400)
    found = step_bar(recorded.read(tmp_path), step_ms=0.986, data_wait_ms=0.1)
    assert found.call_us == pytest.approx(1) and found.scale == pytest.approx(1)
    assert found.bar.ms(StepPart.HOST) == pytest.approx(0.32 - 14 * 0.001)


def test_a_step_that_only_waits_for_data_is_no_disturbance(recorded, tmp_path):
    recorded.step(0, 1000)
    recorded.operation("aten::mm", 900, 1000)
    found = step_bar(recorded.read(tmp_path), step_ms=0.5, data_wait_ms=0.6)
    assert found.bar.ms(StepPart.DATA) == found.bar.total_ms == 0.5
    assert found.disturbance is None and found.notes == ()

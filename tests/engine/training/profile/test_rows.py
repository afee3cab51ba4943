"""The tables of kernels, operations and modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.protocol.profile import StepPart, TimeRow
from engine.training.profile import recording
from engine.training.profile.breakdown import ROOT, Tables, build_tables, step_bar
from engine.training.profile.chrome import read_trace
from tests.engine.training.profile.recorded import AUTOGRAD, Recorded

GEMM = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(int)"
NODE = "autograd::engine::evaluate_function: "
HALF = "c10::Half"


def _linear_step(recorded: Recorded, begin: float) -> None:
    """A linear layer of 64 to 32 on 16 samples in FP16, and its ReLU in the model itself."""
    recorded.step(begin, begin + 1000)
    recorded.mark(recording.MODULE, begin, begin + 200)
    recorded.mark(recording.MODULE + "fc", begin, begin + 100)
    linear = [([32], HALF), ([16, 64], HALF), ([64, 32], HALF), ([], "Scalar"), ([], "Scalar")]
    number = int(begin) + 1
    recorded.operation(
        "aten::addmm",
        begin + 1,
        begin + 99,
        inputs=linear,
        values=["", "", "", "1", "1"],
        sequence=number,
        forward=0,
    )
    recorded.kernel(GEMM, begin + 100, begin + 130, launched=begin + 10)
    recorded.kernel(RELU, begin + 130, begin + 140, launched=begin + 20)  # adds the bias
    recorded.operation("aten::relu", begin + 101, begin + 150, inputs=[([16, 32], HALF)])
    recorded.kernel(RELU, begin + 150, begin + 170, launched=begin + 110)
    recorded.operation(
        NODE + "AddmmBackward0", begin + 300, begin + 400, thread=AUTOGRAD, sequence=number, forward=1
    )
    product = [([64, 16], HALF), ([16, 32], HALF)]
    recorded.operation("aten::mm", begin + 310, begin + 390, thread=AUTOGRAD, inputs=product)
    recorded.kernel(GEMM, begin + 320, begin + 380, launched=begin + 315, thread=AUTOGRAD)


def _tables(recorded: Recorded, folder: Path, units: tuple[str, ...] = ()) -> Tables:
    trace = recorded.read(folder)
    return build_tables(trace, step_bar(trace, 1.0, 0.0, units), units)


def _row(rows: tuple[TimeRow, ...], name: str) -> TimeRow:
    return next(row for row in rows if row.name == name)


def test_kernels_have_their_time_and_the_flops_and_bytes_of_what_launched_them(recorded, tmp_path):
    _linear_step(recorded, 0)
    _linear_step(recorded, 1000)
    kernels = _tables(recorded, tmp_path).kernels
    assert [row.name for row in kernels] == [GEMM, RELU]
    gemm, relu = kernels
    assert (gemm.part, gemm.matrix_unit_fraction, gemm.format) == (StepPart.MATRIX_UNITS, 1, "fp16")
    assert (gemm.ms, gemm.calls, gemm.operation) == (pytest.approx(0.09), 2, "aten::mm")
    products = 2 * 16 * 64 * 32
    assert gemm.flops == pytest.approx(2 * products)
    inputs, weights, outputs = 2 * 16 * 64, 2 * 64 * 32, 2 * 16 * 32
    forward = (inputs + weights + outputs + 2 * 32) * 30 / 40  # shared by time with the bias's kernel
    assert gemm.moved_bytes == pytest.approx(forward + inputs + weights + outputs)
    assert relu.flops is None and relu.format is None
    assert relu.ms == pytest.approx(0.03)


def test_operations_have_the_time_of_what_they_launched_themselves(recorded, tmp_path):
    _linear_step(recorded, 0)
    operations = _tables(recorded, tmp_path).operations
    assert [(row.name, row.calls) for row in operations] == [
        ("aten::mm", 1),
        ("aten::addmm", 1),
        ("aten::relu", 1),
    ]
    addmm = _row(operations, "aten::addmm")
    assert addmm.ms == pytest.approx(0.04) and addmm.matrix_unit_fraction == pytest.approx(0.75)
    assert _row(operations, "aten::relu").gb_per_second == pytest.approx(2 * 2 * 16 * 32 / 0.02 / 1e6)


def test_modules_have_the_time_of_their_own_forward_and_backward(recorded, tmp_path):
    _linear_step(recorded, 0)
    _linear_step(recorded, 1000)
    modules = _tables(recorded, tmp_path).modules
    assert [row.name for row in modules] == ["fc", ROOT]
    fc, root = modules
    assert (fc.ms, fc.backward_ms, fc.calls) == (pytest.approx(0.1), pytest.approx(0.06), 1)
    assert fc.format == "fp16" and fc.flops == pytest.approx(4 * 16 * 64 * 32)
    assert (root.ms, root.backward_ms) == (pytest.approx(0.02), 0)


def test_a_graphs_kernels_stand_alone(recorded, tmp_path):
    recorded.step(0, 100)
    recorded.runtime("cudaGraphLaunch", 10, 20, correlation=3)
    recorded.kernel(GEMM, 30, 60, correlation=3)
    found = _tables(recorded, tmp_path)
    assert [(row.name, row.operation, row.flops) for row in found.kernels] == [(GEMM, None, None)]
    assert found.operations == found.modules == ()


def test_products_in_fp32_on_matrix_units_are_tf32(recorded, tmp_path):
    recorded.step(0, 100)
    recorded.operation("aten::mm", 1, 9, inputs=[([4, 4], "float"), ([4, 4], "float")])
    recorded.kernel("cutlass_tensorop_gemm", 30, 60, launched=5)
    (kernel,) = _tables(recorded, tmp_path).kernels
    assert (kernel.part, kernel.format) == (StepPart.MATRIX_UNITS, "tf32")


def test_on_a_cpu_operations_that_only_call_others_count_nothing_twice(recorded, tmp_path):
    recorded.step(0, 1000)
    shapes = [([2, 3, 8, 8], "c10::BFloat16"), ([4, 3, 3, 3], "c10::BFloat16"), ([], "")]
    settings = [([], "ScalarList")] * 3
    values = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]"]
    recorded.operation("aten::conv2d", 0, 200, inputs=[*shapes, *settings], values=[*values])
    rest = [([], "Scalar"), ([], "ScalarList"), ([], "Scalar")]
    recorded.operation(
        "aten::convolution",
        10,
        190,
        inputs=[*shapes, *settings, *rest],
        values=[*values, "False", "[0, 0]", "1"],
    )
    recorded.operation(
        "aten::mkldnn_convolution",
        20,
        180,
        inputs=[*shapes, *settings, ([], "Scalar")],
        values=[*values, "1"],
    )
    found = _tables(recorded, tmp_path, ("bf16",))
    convolution = _row(found.operations, "aten::mkldnn_convolution")
    assert (convolution.part, convolution.format) == (StepPart.MATRIX_UNITS, "bf16")
    assert convolution.flops == 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    assert convolution.moved_bytes == 2 * (2 * 3 * 8 * 8 + 4 * 3 * 3 * 3 + 2 * 4 * 8 * 8)
    assert all(
        row.part is StepPart.HOST and row.flops is None for row in found.operations if row is not convolution
    )
    assert found.kernels == ()


@pytest.mark.parametrize(("needs_inputs", "products"), [("True", 2), ("False", 1)])
def test_a_depthwise_convolutions_backward_pass_has_the_flops_of_its_own_weights(
    needs_inputs, products, recorded, tmp_path
):
    recorded.step(0, 1000)
    pictures, weight = ([2, 6, 8, 8], "float"), ([6, 1, 3, 3], "float")
    types = [*["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"]
    values = ["[6]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "6", f"[{needs_inputs}, True, False]"]
    recorded.operation(
        "aten::convolution_backward",
        0,
        200,
        inputs=[pictures, pictures, weight, *(([], kind) for kind in types)],
        values=["", "", "", *values],
    )
    found = _tables(recorded, tmp_path)
    flops = _row(found.operations, "aten::convolution_backward").flops
    assert flops == products * 2 * (2 * 8 * 8) * (6 * 3 * 3)


def test_on_a_cpu_an_operation_that_fills_its_output_first_counts_itself(recorded, tmp_path):
    recorded.step(0, 1000)
    pooled, pictures = ([2, 3, 1, 1], "float"), ([2, 3, 8, 8], "float")
    recorded.operation("aten::_adaptive_avg_pool2d_backward", 0, 200, inputs=[pooled, pictures])
    recorded.operation("aten::zero_", 10, 20, inputs=[pictures])
    found = _tables(recorded, tmp_path)
    pool = _row(found.operations, "aten::_adaptive_avg_pool2d_backward")
    assert pool.ms == pytest.approx(0.19) and pool.moved_bytes == 4 * (2 * 3 + 2 * 2 * 3 * 8 * 8)


def test_a_recording_of_a_gpu_gives_rows_whose_times_add_up_to_its_work():
    trace = read_trace(Path(__file__).with_name("traces") / "resnet_backward.json.gz")
    found = build_tables(trace, step_bar(trace, step_ms=90.0, data_wait_ms=0.0))
    work_ms = sum(work.us for work in trace.work if work.place.step is not None) / 1e3
    assert sum(row.ms for row in found.kernels) == pytest.approx(work_ms)
    assert found.operations[0].name == "aten::convolution_backward"
    assert {row.name for row in found.modules} == {"fc", "layer4.2.conv3"}
